"""The jail passes what every backend must pass."""

from collections.abc import AsyncIterator

import pytest

from nekro_core.sandbox.box import Backend, Box
from nekro_core.sandbox.jail.backend import JailBackend
from tests.sandbox.conformance import BackendConformance
from tests.sandbox.conformance_streams import StreamConformance
from tests.sandbox.conftest import SMALL

pytestmark = pytest.mark.jail


class TestJail(BackendConformance):
    @pytest.fixture
    def backend(self, jail: Backend) -> Backend:
        return jail


class TestWithoutDoor(StreamConformance):
    """Connections are relayed in frames, as they are behind an engine on another machine."""

    @pytest.fixture
    async def box(self, jail: JailBackend) -> AsyncIterator[Box]:
        made = await jail.create(SMALL, with_door=False)
        yield made
        await made.destroy()

    @pytest.fixture
    def used_box(self, box: Box) -> Box:
        return box
