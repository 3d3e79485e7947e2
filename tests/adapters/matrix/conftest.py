"""Starts one Synapse server for all tests. If Synapse is not installed, the tests are skipped."""

from collections.abc import AsyncIterator

import pytest

from tests.peers.recording_proxy import RecordingProxy
from tests.peers.synapse import Synapse, installed, synapse


@pytest.fixture(scope="session")
async def server(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[Synapse]:
    if not installed():
        pytest.skip("no Synapse here: make .venv-synapse/.installed")
    async with synapse(tmp_path_factory.mktemp("synapse")) as running:
        yield running


@pytest.fixture
async def proxy(server: Synapse) -> AsyncIterator[RecordingProxy]:
    async with RecordingProxy(server.port) as proxy:
        yield proxy
