"""The crash test of a cluster measures how long each chat waited after a blow, and knows which
calls and questions a blow can have lost."""

from pathlib import Path

from tests.e2e.cluster.blows import Blow, Kind, Place, may_be_lost, waits
from tests.e2e.cluster.crash import ClusterLoad, ClusterOutcome
from tests.e2e.cluster.rounds import RoundResult, report
from tests.e2e.crash_judge import Outcome

BOTH = frozenset({"20002", "20003"})
ZERO, ONE = Place("20002", partition=7), Place("20003", partition=9)
PLACES = {0: ZERO, 1: ONE}


def blow(
    at: float,
    kind: Kind = Kind.KILL_WORKER,
    accounts: frozenset[str] = BOTH,
    partitions: frozenset[int] | None = None,
    over: float = 0.0,
) -> Blow:
    """A blow after which the cluster can serve its chats at once, or at ``over``."""
    return Blow(
        kind=kind,
        target="worker-1",
        began=at,
        accounts=accounts,
        partitions=partitions,
        over=over or at,
    )


def test_a_question_that_is_open_at_the_kill_waits_from_the_kill_until_its_answer() -> None:
    asked = {(0, 0): 1.0, (0, 1): 9.0, (0, 2): 14.0}
    answered = {(0, 0): 2.0, (0, 1): 13.0, (0, 2): 15.0}
    wait = waits([blow(10.0)], asked, answered, PLACES)[0]
    assert (wait.chat, wait.number, wait.seconds, wait.kind) == (0, 1, 3.0, "a worker killed")


def test_a_question_after_the_kill_waits_from_the_question() -> None:
    (wait,) = waits([blow(10.0)], {(1, 0): 11.0}, {(1, 0): 11.5}, PLACES)
    assert (wait.chat, wait.seconds, wait.kind) == (1, 0.5, "a worker killed")


def test_the_longest_wait_of_a_chat_after_a_kill_counts_and_not_the_first_answer() -> None:
    asked = {(0, 0): 9.0, (0, 1): 10.0}
    answered = {(0, 0): 10.5, (0, 1): 17.0}
    (wait,) = waits([blow(10.0)], asked, answered, PLACES)
    assert (wait.number, wait.seconds) == (1, 7.0)


def test_a_wait_long_after_a_kill_belongs_to_no_blow() -> None:
    (wait,) = waits([blow(10.0)], {(1, 0): 20.0}, {(1, 0): 28.0}, PLACES)
    assert (wait.seconds, wait.kind) == (8.0, "no blow")


def test_a_wait_begins_again_with_the_last_blow_that_concerned_the_chat() -> None:
    asked, answered = {(0, 0): 9.0}, {(0, 0): 16.0}
    (wait,) = waits([blow(10.0), blow(12.0)], asked, answered, PLACES)
    assert wait.blow is not None
    assert (wait.seconds, wait.blow.began) == (4.0, 12.0)


def test_the_kill_of_another_worker_or_gateway_excuses_no_wait() -> None:
    gateway = blow(12.0, Kind.KILL_GATEWAY, frozenset({"20003"}))
    worker = blow(13.0, partitions=frozenset({9}))
    (wait,) = waits([blow(10.0), gateway, worker], {(0, 0): 9.0}, {(0, 0): 16.0}, PLACES)
    assert wait.blow is not None
    assert (wait.seconds, wait.blow.began) == (6.0, 10.0)


def test_after_a_stop_or_a_restart_the_wait_begins_when_it_is_over() -> None:
    for kind in (Kind.STOP_GATEWAY, Kind.NATS, Kind.POSTGRES):
        (wait,) = waits([blow(10.0, kind, over=40.0)], {(0, 0): 12.0}, {(0, 0): 42.0}, PLACES)
        assert (wait.seconds, wait.kind) == (2.0, kind.value)


def test_a_blow_explains_only_calls_that_were_under_way_near_it() -> None:
    kill = blow(100.0, accounts=frozenset({"20002"}))
    assert kill.explains(ZERO, created=99.9, changed=104.0), "under way at the kill"
    assert kill.explains(ZERO, created=103.0, changed=103.2), "before the kill was noticed"
    assert not kill.explains(ZERO, created=98.0, changed=99.0), "decided before the kill"
    assert not kill.explains(ZERO, created=107.0, changed=108.0), "begun long after it"
    assert not kill.explains(ONE, created=99.9, changed=104.0), "another account"


def test_a_killed_worker_explains_only_calls_of_the_partitions_that_it_served() -> None:
    kill = blow(100.0, partitions=frozenset({7}))
    assert kill.explains(ZERO, created=99.9, changed=104.0)
    assert not kill.explains(ONE, created=99.9, changed=104.0)


def test_a_stopped_worker_explains_calls_that_are_lost_when_it_goes_on() -> None:
    stop = blow(100.0, Kind.STOP_WORKER)
    assert not stop.explains(ZERO, created=125.0, changed=128.0)
    stop.went_on = 124.0
    assert stop.explains(ZERO, created=125.0, changed=128.0)
    assert not stop.explains(ZERO, created=112.0, changed=113.0), "between stop and going on"


def test_only_a_killed_gateway_can_have_lost_a_question_that_it_was_told() -> None:
    kill = blow(103.0, Kind.KILL_GATEWAY, frozenset({"20002"}))
    assert may_be_lost([kill], "20002", asked=100.0)
    assert not may_be_lost([kill], "20003", asked=100.0), "another gateway's account"
    assert not may_be_lost([kill], "20002", asked=90.0), "it was stored long before"
    assert not may_be_lost([kill], "20002", asked=104.0), "it was told to the next process"
    away = blow(91.0, Kind.POSTGRES, over=99.0)
    assert may_be_lost([away, kill], "20002", asked=90.0), "there was no database to store it"
    assert not may_be_lost([away], "20002", asked=90.0)


def test_the_result_of_a_round_is_kept_and_counted_together_with_others(tmp_path: Path) -> None:
    asked, answered = {(0, 0): 9.0, (1, 0): 9.0}, {(0, 0): 16.0, (1, 0): 11.0}
    kill = blow(10.0)
    slow = ClusterOutcome(Outcome(), blows=[kill], waits=waits([kill], asked, answered, PLACES))
    slow.unknown.append("a gateway killed: no answer")
    RoundResult.of(ClusterLoad(seed=4), slow).write(tmp_path / "round-4.json")
    faulty = ClusterOutcome(Outcome(faults=["ask0x0y: 2 answers"]), blows=[kill, kill])
    results = [
        RoundResult.read(tmp_path / "round-4.json"),
        RoundResult.of(ClusterLoad(seed=5), faulty),
    ]
    told = report(results)
    assert "seed 4: 6.0 s, question 0 of chat 0, a worker killed (worker-1)" in told
    assert "a worker killed (3 times): median wait of a chat 1.0 s, longest 6.0 s" in told
    assert "1 calls of unknown outcome after a gateway killed" in told
    assert "3 blows in 2 rounds and 0 s; 1 rounds with faults; 1 waits of more than 5 s" in told
