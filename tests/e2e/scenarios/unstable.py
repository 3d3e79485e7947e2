"""Replaces what differs between two runs of the same conversation in a reply: the numbers of
messages, the ids of timers and runs, results of two digits (of dice), the date of today, and times
that are counted from now.

For example, a reply that was written for one run contains ``#12``. It is stored with a mark
instead of the number. The mark says the position of the number among the numbers in the reply's
request. When the reply is played back, the number at this position of the new request replaces the
mark.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

_KINDS = {
    "message": re.compile(r"#(\d+)\b"),
    "id": re.compile(r"\b([0-9a-f]{12})\b"),
    "output": re.compile(r"\b([0-9a-f]{8}\.txt)\b"),
    "upload": re.compile(r"\b([0-9a-f]{32}\.\w+)"),
    "number": re.compile(r"^> (\d\d)$", re.MULTILINE),
    "day": re.compile(r"\[now\] (\d{4}-\d\d-\d\d)"),
}
_USES = {
    "message": re.compile(r"""(?<=#)\d+\b|(?<=reply_to=["'])\d+|(?<="reply_to": ")\d+"""),
    "id": _KINDS["id"],
    "output": _KINDS["output"],
    "upload": _KINDS["upload"],
    "number": re.compile(r"(?<![\w.,:-])\d\d(?![\w,:-]|\.\d)"),
    "day": re.compile(r"\b20\d\d-\d\d-\d\d\b"),
}


class MarkUnknown(Exception):
    """A stored reply refers to something that the request does not contain."""


_MARK = re.compile(r"⟨(message|id|output|upload|number|day) (\d+)⟩")


_NOW = re.compile(r"\[now\] (\d{4}-\d\d-\d\d \d\d:\d\d)")
_MOMENT = re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d\b")
_MINUTES = re.compile(r"⟨(time|clock) \+(\d+)⟩")
_LONGEST = timedelta(days=2)
"""Only a time less than this far after now is replaced. A later time was probably not counted from
now."""


def to_stored(reply: str, request: str, whole: str = "") -> str:
    """Return a part of a reply in the form in which it is stored. ``request`` is the text of the
    reply's request. ``whole`` is the whole reply. It is needed because the words of a reply may
    name only the hour and minute of a time, and the date may be in a call."""
    now = _now(request)
    for moment in dict.fromkeys(_MOMENT.findall(whole or reply)) if now else ():
        later = datetime.fromisoformat(moment) - now
        if timedelta() < later < _LONGEST:
            minutes = round(later.total_seconds() / 60)
            reply = reply.replace(moment, f"⟨time +{minutes}⟩")
            reply = re.sub(rf"\b{moment[-5:]}\b", f"⟨clock +{minutes}⟩", reply)
    for kind, pattern in _USES.items():
        known = _found(kind, request)

        def mark(found: re.Match[str], kind: str = kind, known: Sequence[str] = known) -> str:
            value = found[0]
            return f"⟨{kind} {known.index(value)}⟩" if value in known else value

        reply = pattern.sub(mark, reply)
    return reply


def from_stored(reply: str, request: str) -> str:
    """Return a stored reply as an answer to a new request."""

    def value(mark: re.Match[str]) -> str:
        known = _found(mark[1], request)
        place = int(mark[2])
        if place >= len(known):
            raise MarkUnknown(f"the reply names {mark[0]}: the request has {len(known)} of them")
        return known[place]

    def moment(mark: re.Match[str]) -> str:
        now = _now(request)
        if now is None:
            raise MarkUnknown(
                f"the reply names {mark[0]}: the request does not say what time it is"
            )
        later = now + timedelta(minutes=int(mark[2]))
        return f"{later:%Y-%m-%d %H:%M}" if mark[1] == "time" else f"{later:%H:%M}"

    return _MINUTES.sub(moment, _MARK.sub(value, reply))


def _now(request: str) -> datetime | None:
    found = _NOW.findall(request)
    return datetime.fromisoformat(found[-1]) if found else None


def _found(kind: str, request: str) -> list[str]:
    """Return the different values of a kind in a request, in the order of their first
    occurrence."""
    return list(dict.fromkeys(found[1] for found in _KINDS[kind].finditer(request)))
