"""Sends the texts of a turn: the model's text for the chat, and notices of the bot."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from loguru import logger

from nekro_core.agent.turn.boxes import TurnBox
from nekro_core.agent.turn.context import TurnContext
from nekro_core.agent.turn.live_words import LEAST_CHARS, LiveWords
from nekro_core.agent.turn.recorder import SAID, SAID_PART, SAYING, TurnRecorder
from nekro_core.agent.turn.reply import End
from nekro_core.agent.turn.services import TurnServices
from nekro_core.chat import Record, RunRecord, Text, plain_text
from nekro_core.delivery.errors import DeliveryError, TooManySends
from nekro_core.llm.model import PassedModel
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.store import DeliveryRow

_UNFINISHED: dict[End, str] = {"broken": "turn.broke_off", "length": "turn.cut_short"}
"""The notice that is added to a text whose end is missing."""


_PLACES = ("\n\n", "\n", "。", "！", "？", ". ", "! ", "? ", " ")
"""The places at which a text may be cut in two, the best place first."""


def without_beginning(text: str, beginning: str) -> str:
    """Return a text without the words of ``beginning``. If the text does not begin with these
    words, return the whole text. Spaces and line ends make no difference."""
    words = beginning.split()
    if not words:
        return text
    found = re.match(r"\s*" + r"\s+".join(map(re.escape, words)) + r"(?!\S)", text)
    return text[found.end() :].strip() if found else text


def in_parts(text: str, most: int) -> list[str]:
    """Cut a text into parts of at most ``most`` characters. A text that is too long is cut near its
    middle, if possible between two paragraphs; each half that is too long is cut again."""
    text = text.strip()
    if len(text) <= max(most, 1):
        return [text] if text else []
    place = _middle(text)
    return [*in_parts(text[:place], most), *in_parts(text[place:], most)]


def _middle(text: str) -> int:
    low, middle, high = len(text) // 4, len(text) // 2, len(text) * 3 // 4
    for mark in _PLACES:
        ends = [each.end() for each in re.finditer(re.escape(mark), text)]
        if near := [end for end in ends if low < end < high]:
            return min(near, key=lambda end: abs(end - middle))
    return middle


class TurnReplies:
    """Sends the texts of one turn. ``sent`` says whether the turn has sent anything to people, as
    text or from code. A resumed turn sets ``outgoing`` to a `DeduplicatingSender`."""

    def __init__(
        self, services: TurnServices, context: TurnContext, recorder: TurnRecorder, box: TurnBox
    ) -> None:
        self.sent = False
        self.outgoing: MessageSender = services.outbox
        self._notices = services.notices
        self.said_before = ""
        """In a resumed turn: the words of an unfinished reply that were sent before the restart."""
        self._messages = services.store.messages
        self._editor = services.editor
        self._streams = services.settings.stream_words
        self._part_chars = services.settings.turn.prose_chars
        self._context = context
        self._recorder = recorder
        self._box = box

    def live_words(self, *, natively: bool) -> LiveWords | None:
        """Return the `LiveWords` for the next reply, which send words while the model writes.
        Return None if the settings switch this off. Return None also if the turn is resumed: only
        the whole reply shows which part of it was sent before the restart."""
        if not self._streams or self._context.request.resumed:
            return None
        return LiveWords(
            self._context.chat_key,
            self.outgoing,
            self._editor,
            self._begin_live,
            least_chars=1 if natively and self._can_edit else LEAST_CHARS,
            code_may_follow=not natively,
        )

    @property
    def _can_edit(self) -> bool:
        editor = self._editor
        return editor is not None and editor.edit_every_s(self._context.chat_key) is not None

    async def _begin_live(self) -> str:
        run_id = uuid.uuid4().hex
        await self._recorder.begin_words(run_id)
        self._context.runs.add(run_id)
        self.sent = True
        return run_id

    async def finish_live(
        self, words: LiveWords, *, stop: str = SAID, code: str = "", end: End = "whole"
    ) -> None:
        """Send the rest of words whose beginning was sent while the model wrote them. The arguments
        are as for `send_prose`."""
        rest = await words.finish(self._tail(end))
        await self._recorder.end_words(words.run_id, SAID_PART if rest else stop, code)
        if rest:
            await self._send_or_halve(rest, stop=stop, code=code)

    async def live_rows(self, words: LiveWords | None) -> list[DeliveryRow]:
        """Return one delivery row with all words that were sent while the model wrote them. The
        stored row of a message that grew by edits has only its first words."""
        if words is None or not words.run_id:
            return []
        rows = await self._recorder.sent_in_run(words.run_id)
        return [replace(row, segments=(Text(words.sent, markdown=True),)) for row in rows[-1:]]

    async def recover_live(
        self, runs: Sequence[RunRecord], rows: Sequence[DeliveryRow]
    ) -> list[DeliveryRow]:
        """In a resumed turn, find out which words of an unfinished reply were sent. If a message
        was growing by edits, the process may have ended between an edit and the change of the
        history. So the message is edited once more to the words in the history. Returns the rows of
        the turn; the rows of such messages have the words that people see."""
        unfinished = {run.run_id for run in runs if run.stop == SAYING}
        shown = {
            row.delivery_id: await self._with_shown_words(row)
            for row in rows
            if row.run_id in unfinished and row.state.left
        }
        found = [shown.get(row.delivery_id, row) for row in rows]
        of_reply = {
            run.run_id
            for run in takewhile(lambda run: run.stop in (SAYING, SAID_PART), reversed(runs))
        }
        words = [plain_text(row.segments) for row in found if row.run_id in of_reply]
        self.said_before = "\n\n".join(words)
        for run_id in unfinished:
            await self._recorder.end_words(run_id, SAID_PART)
        return found

    async def _with_shown_words(self, row: DeliveryRow) -> DeliveryRow:
        record = await self._messages.get(row.record_seq) if row.record_seq else None
        if record is None:
            return row
        if self._editor is not None and row.message_id and self._can_edit:
            await self._editor.edit(self._context.chat_key, row.message_id, record.segments)
        return replace(row, segments=record.segments)

    async def send_prose(
        self, prose: str, *, stop: str = SAID, code: str = "", end: End = "whole"
    ) -> None:
        """Send the model's text to the chat. A separate run is stored for the text, so that a turn
        that is resumed after a crash knows that the text was sent. ``stop`` is stored as the run's
        reason to stop, and ``code`` as its code. If ``end`` says that the text's end is missing, a
        notice is added."""
        prose = without_beginning(prose, self.said_before)
        if prose:
            await self._send_or_halve(prose + self._tail(end), stop=stop, code=code)

    def _tail(self, end: End) -> str:
        """Return the notice that is added to a text whose end is missing."""
        notice = _UNFINISHED.get(end)
        return f"\n\n{self._notices.text(self._people_said(), notice)}" if notice else ""

    async def _send_or_halve(self, text: str, *, stop: str, code: str) -> None:
        """Send a text as a whole. If the platform cannot send files and the text needs more
        messages than one run may send, send the text in parts, each with a separate run."""
        run_id = await self.begin_words(code)
        chat_key = self._context.chat_key
        parts: list[str] = []
        try:
            await self.outgoing.send(chat_key, (Text(text, markdown=True),), run_id=run_id)
            self.sent = True
        except TooManySends as error:
            parts = in_parts(text, min(self._part_chars, len(text) - 1))
            if len(parts) < 2:
                await self._note_not_sent(error)
        except DeliveryError as error:
            await self._note_not_sent(error)
        await self._recorder.end_words(run_id, SAID_PART if parts else stop)
        for part in parts[:-1]:
            await self._send_or_halve(part, stop=SAID_PART, code=code)
        for part in parts[-1:]:
            await self._send_or_halve(part, stop=stop, code=code)

    async def begin_words(self, code: str = "") -> str:
        """Store that a text is about to be sent. Returns the id of its run."""
        run_id = uuid.uuid4().hex
        await self._recorder.begin_run(run_id, code, SAYING)
        self._context.runs.add(run_id)
        return run_id

    async def _note_not_sent(self, error: DeliveryError) -> None:
        logger.warning("a reply to {} was not sent: {}", self._context.chat_key, error)
        await self.notify("turn.failed")

    async def notify_no_model(self, passed: Sequence[PassedModel]) -> None:
        """Send one notice with the reasons why no model of the chain answers."""
        asked = [each for each in passed if each.seconds] or passed
        people_said = self._people_said()
        reasons = [self._notices.text(people_said, f"model.why.{each.reason}") for each in asked]
        await self.notify("model.chain", reasons="; ".join(dict.fromkeys(reasons)))

    async def notify(self, key: str, **values: object) -> None:
        """Send a notice, unless the turn has already sent something. If code ran, the notice gets a
        separate run. The run links the notice to the turn, where operators can find the code."""
        if self.sent:
            return
        run_id = uuid.uuid4().hex if self._box.has_run else ""
        if run_id:
            await self._recorder.begin_run(run_id)
            self._context.runs.add(run_id)
        await self._notices.send(
            self._context.chat_key, self._people_said(), key, run_id=run_id, **values
        )
        if run_id:
            await self._recorder.end_words(run_id)

    def _people_said(self) -> list[Record]:
        """Return the records of people from which the language is guessed."""
        return [self._context.request.trigger_record, *self._context.records]
