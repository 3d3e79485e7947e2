"""Counts latencies in buckets. The width of a bucket grows with the latency. The counts of several
hours or chats can be added up, and the sum still gives a median and a 95th percentile."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

_SHORTEST_S = 0.001
_GROWTH = 1.2
"""Each bucket is this many times as wide as the one before it, so a percentile is at most 10 % off.
"""
_LAST = 100
"""The last bucket has all latencies over 23 hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySummary:
    """A summary of latencies. Its latencies are in seconds. ``p50`` and ``p95`` are at most 10 %
    off.

    Attributes:
        number: How many latencies there were.
        p50: The median; 0 if there were no latencies.
        p95: The 95th percentile; 0 if there were no latencies.
    """

    number: int = 0
    p50: float = 0.0
    p95: float = 0.0


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket that counts a latency: 0 for the shortest latencies, `_LAST`
    for the longest."""
    if not seconds > _SHORTEST_S:
        return 0
    return min(round(math.log(seconds / _SHORTEST_S, _GROWTH)), _LAST)


def summary_of(buckets: Mapping[int, int]) -> LatencySummary:
    """Summarize the counts of buckets."""
    number = sum(buckets.values())
    if not number:
        return LatencySummary()
    return LatencySummary(number=number, p50=_percentile(buckets, 50), p95=_percentile(buckets, 95))


def seconds_of(bucket: int) -> float:
    """Return the latency, in seconds, for which a bucket stands: the middle of the bucket."""
    return _SHORTEST_S * float(_GROWTH**bucket)


def _percentile(buckets: Mapping[int, int], percent: int) -> float:
    wanted = sum(buckets.values()) * percent
    passed = 0
    for bucket in sorted(buckets):
        passed += buckets[bucket]
        if passed * 100 >= wanted:
            break
    return seconds_of(bucket)
