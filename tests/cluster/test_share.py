"""Which partitions a worker takes and gives up."""

from nekro_core.cluster.share import PartitionView, WorkerShare


def views(*owned: bool) -> list[PartitionView]:
    return [
        PartitionView(partition=number, owned=each, idle=True, newest=0)
        for number, each in enumerate(owned)
    ]


def test_a_lone_worker_takes_all_partitions() -> None:
    share = WorkerShare("ada")
    change = share.decide(views(*[False] * 6), held=(), seeking=(), workers=1, now=0.0)
    assert sorted(change.take) == [0, 1, 2, 3, 4, 5]
    assert change.give_up == []


def test_a_worker_takes_no_more_than_its_share_when_others_live() -> None:
    share = WorkerShare("ada")
    change = share.decide(views(*[False] * 7), held=(), seeking=(), workers=2, now=0.0)
    assert len(change.take) == 4
    more = share.decide(views(*[False] * 7), held=(0,), seeking=(1, 2), workers=2, now=0.1)
    assert len(more.take) == 1
    assert not {0, 1, 2} & {*more.take}


def test_a_worker_gives_up_what_is_above_its_share_and_lets_others_take_it() -> None:
    share = WorkerShare("ada")
    share.decide(views(*[True] * 6), held=range(6), seeking=(), workers=1, now=-9.0)
    change = share.decide(views(*[True] * 6), held=range(6), seeking=(), workers=2, now=0.0)
    assert len(change.give_up) == 3
    kept = {*range(6)} - {*change.give_up}
    free = views(*[number in kept for number in range(6)])
    # Meanwhile the other worker has ended, so the share of this worker is 6 partitions again.
    at_once = share.decide(free, held=kept, seeking=(), workers=1, now=1.0)
    assert at_once.take == []
    later = share.decide(free, held=kept, seeking=(), workers=1, now=3.1)
    assert sorted(later.take) == sorted(change.give_up)


def test_a_worker_keeps_a_partition_that_it_has_just_taken() -> None:
    """It took the partitions of a killed worker, which is back now. It keeps them for 3 s and
    answers the questions that waited in them."""
    share = WorkerShare("ada")
    share.decide(views(True, True, False, False), held=(0, 1), seeking=(), workers=2, now=0.0)
    all_owned = views(True, True, True, True)
    taken = share.decide(all_owned, held=(0, 1, 2, 3), seeking=(), workers=2, now=10.0)
    assert [each for each in taken.give_up if each in (2, 3)] == []
    later = share.decide(all_owned, held=(0, 1, 2, 3), seeking=(), workers=2, now=13.1)
    assert len(later.give_up) == 2


def test_a_partition_that_stays_without_an_owner_is_taken_beyond_the_share() -> None:
    """The owner of the partitions 2 and 3 was killed, but still counts as a worker. So the share of
    the other worker is 2 of 4 partitions, which it holds already."""
    share = WorkerShare("ada")
    seen = views(True, True, False, False)
    first = share.decide(seen, held=(0, 1), seeking=(), workers=2, now=0.0)
    assert first.take == []
    second = share.decide(seen, held=(0, 1), seeking=(), workers=2, now=0.5)
    assert sorted(second.take) == [2, 3]


def test_partitions_of_other_owners_are_left_alone() -> None:
    share = WorkerShare("ada")
    change = share.decide(views(True, True), held=(), seeking=(), workers=2, now=0.0)
    assert change.take == []
