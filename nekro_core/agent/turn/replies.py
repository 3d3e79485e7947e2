"""Sends the texts of a turn: the model's text for the chat, and notices of the bot."""

import uuid
from collections.abc import Sequence

from loguru import logger

from nekro_core.agent.prompt.transcript import shortened
from nekro_core.agent.turn.boxes import TurnBox
from nekro_core.agent.turn.context import TurnContext
from nekro_core.agent.turn.recorder import SAID, TurnRecorder
from nekro_core.agent.turn.reply import End
from nekro_core.agent.turn.services import TurnServices
from nekro_core.chat import Record, Text
from nekro_core.delivery.errors import DeliveryError, TooManySends
from nekro_core.llm.model import PassedModel
from nekro_core.plugins.authoring.services import MessageSender

_UNFINISHED: dict[End, str] = {"broken": "turn.broke_off", "length": "turn.cut_short"}
"""The notice that is added to a text whose end is missing."""


class TurnReplies:
    """Sends the texts of one turn. ``sent`` says whether the turn has sent anything to people, as
    text or from code. A resumed turn sets ``outgoing`` to a `DeduplicatingSender`."""

    def __init__(
        self, services: TurnServices, context: TurnContext, recorder: TurnRecorder, box: TurnBox
    ) -> None:
        self.sent = False
        self.outgoing: MessageSender = services.outbox
        self._notices = services.notices
        self._prose_chars = services.settings.turn.prose_chars
        self._context = context
        self._recorder = recorder
        self._box = box

    async def send_prose(
        self, prose: str, *, stop: str = SAID, code: str = "", end: End = "whole"
    ) -> None:
        """Send the model's text to the chat. A separate run is stored for the text, so that a turn
        that is resumed after a crash knows that the text was sent. ``stop`` is stored as the run's
        reason to stop, and ``code`` as its code. If ``end`` says that the text's end is missing, a
        notice is added."""
        run_id = uuid.uuid4().hex
        await self._recorder.begin_run(run_id, code)
        self._context.runs.add(run_id)
        notice = _UNFINISHED.get(end)
        tail = f"\n\n{self._notices.text(self._people_said(), notice)}" if notice else ""
        try:
            await self._send_whole(prose, tail, run_id)
            self.sent = True
        except DeliveryError as error:
            logger.warning("a reply to {} was not sent: {}", self._context.chat_key, error)
            await self.notify("turn.failed")
        await self._recorder.end_words(run_id, stop)

    async def _send_whole(self, prose: str, tail: str, run_id: str) -> None:
        """Send the whole text. A long text is sent in several messages or as a file. The middle is
        left out only if the platform has no files and the text needs more messages than a run may
        send."""
        chat_key = self._context.chat_key
        try:
            await self.outgoing.send(chat_key, (Text(prose + tail, markdown=True),), run_id=run_id)
        except TooManySends:
            text = shortened(prose, self._prose_chars)
            await self.outgoing.send(chat_key, (Text(text + tail, markdown=True),), run_id=run_id)

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
