"""Prevents a resumed turn from sending a message twice, even if its model repeats the message."""

from collections.abc import Sequence

import msgspec

from nekro_core.agent.turn.recorder import SAID
from nekro_core.agent.turn.report import DO_NOT_RESEND
from nekro_core.chat import (
    ChatKey,
    File,
    Image,
    Media,
    Receipt,
    RunRecord,
    Segment,
    Segments,
    Text,
    Video,
    Voice,
    encode_segments,
)
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.sandbox.box import StopReason
from nekro_core.store import DeliveryRow


def was_answered(runs: Sequence[RunRecord], sent: Sequence[DeliveryRow]) -> bool:
    """Return whether a turn of an earlier process had already answered.

    The answer is yes if two conditions hold. First, the turn sent messages that must not be sent
    again. Second, its last run sent the model's text, or its last run is code that finished and
    either sent one of these messages or printed nothing.
    """
    if not runs:
        return False
    last, left = runs[-1], [row for row in sent if row.state in DO_NOT_RESEND]
    if last.stop == StopReason.FINISHED.value:
        answered = any(row.run_id == last.run_id for row in left)
        return answered or (bool(left) and not last.output.strip())
    return bool(left) and last.stop == SAID


class DeduplicatingSender:
    """A `MessageSender` that does not send messages again that were sent before the restart. For
    such a message it returns the earlier receipts. Each earlier message is matched only once."""

    def __init__(self, outgoing: MessageSender, rows: Sequence[DeliveryRow]) -> None:
        self._outgoing = outgoing
        self._left: list[tuple[str, tuple[Receipt, ...]]] = []
        for send in _sends(rows):
            left = [row for row in send if row.state in DO_NOT_RESEND]
            if not left:
                continue
            receipts = tuple(
                Receipt(state=row.state, message_id=row.message_id, reason="sent before a restart")
                for row in left
            )
            whole = tuple(segment for row in left for segment in row.segments)
            self._left.append((f"{left[0].chat_key} {_comparable_text(whole)}", receipts))

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """Send a message, unless the same message was sent before the restart."""
        wanted = f"{chat_key} {_comparable_text(tuple(segments))}"
        for index, (known, receipts) in enumerate(self._left):
            if known == wanted:
                del self._left[index]
                return receipts
        return await self._outgoing.send(chat_key, segments, run_id=run_id)


def _sends(rows: Sequence[DeliveryRow]) -> list[list[DeliveryRow]]:
    """Group the rows by message. Each row is one part of a message: the first part has position 0,
    the next part position 1, and so on."""
    sends: list[list[DeliveryRow]] = []
    for row in rows:
        if row.position and sends:
            sends[-1].append(row)
        else:
            sends.append([row])
    return sends


def _comparable_text(segments: Segments) -> str:
    """Encode segments so that messages that look the same to a person have the same encoding."""
    merged: list[Segment] = []
    for segment in segments:
        if isinstance(segment, Text):
            segment = Text(segment.text)  # noqa: PLW2901 - a row of an older version has no mark
            if merged and isinstance(merged[-1], Text):
                segment = Text(merged.pop().text + segment.text)  # type: ignore[union-attr]  # noqa: PLW2901
        elif isinstance(segment, Image | Voice | Video | File):
            media = segment.media
            known = Media(sha256=media.sha256) if media.sha256 else Media(path=media.path)
            segment = msgspec.structs.replace(segment, media=known)  # noqa: PLW2901
        merged.append(segment)
    return encode_segments(merged)
