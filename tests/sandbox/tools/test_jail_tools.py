"""The eight tools work on boxes of the jail."""

import pytest

from nekro_core.sandbox.box import Backend
from tests.sandbox.tools.results import ToolResults
from tests.sandbox.tools.workflow import MultiSandboxWorkflow

pytestmark = [pytest.mark.jail, pytest.mark.long]


@pytest.fixture(scope="module")
def backend(jail: Backend) -> Backend:
    return jail


class TestJailTools(ToolResults):
    pass


class TestJailWorkflow(MultiSandboxWorkflow):
    pass
