"""The jail passes what every backend must pass."""

import pytest

from nekro_core.sandbox.box import Backend
from tests.sandbox.conformance import BackendConformance

pytestmark = pytest.mark.jail


class TestJail(BackendConformance):
    @pytest.fixture
    def backend(self, jail: Backend) -> Backend:
        return jail
