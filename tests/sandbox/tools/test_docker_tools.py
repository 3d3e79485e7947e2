"""The eight tools work on containers of a real Docker engine."""

import pytest

from nekro_core.sandbox.box import Backend
from tests.sandbox.tools.results import ToolResults
from tests.sandbox.tools.workflow import BUILD_WITHOUT_NODE, MultiSandboxWorkflow

pytestmark = [pytest.mark.docker, pytest.mark.long]


@pytest.fixture(scope="module")
def backend(docker: Backend) -> Backend:
    return docker


class TestDockerTools(ToolResults):
    pass


class TestDockerWorkflow(MultiSandboxWorkflow):
    """With the engine's only image, which has no Node.js: the tests have no network."""

    images = ("python", "python")
    files = (("build.py", BUILD_WITHOUT_NODE),)
    build = "python3 build.py"
