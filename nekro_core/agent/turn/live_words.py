"""Sends the words of a reply while the model writes the rest of it.

Finished paragraphs are sent. On a platform that can edit messages, the bot sends one message and
adds to it by edits (the message *grows*); on other platforms it sends a few messages. If code
follows the words, the words that were sent stay in the chat, and the turn decides what happens with
the others.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto

import anyio
from loguru import logger

from nekro_core.agent.turn.paragraphs import Paragraphs, looks_like_code
from nekro_core.agent.turn.plain_replies import may_be_no_words
from nekro_core.chat import ChatKey, DeliveryState, Receipt, Segment, Text
from nekro_core.delivery.errors import DeliveryError
from nekro_core.plugins.authoring.services import MessageEditor, MessageSender

LEAST_CHARS = 80
"""Words are sent only after this many characters. In code mode, code may follow a shorter text
(docs/decisions/0043-words-as-they-are-written.md has the figures). In tool mode, this keeps a short
"Sure!" from becoming a separate message."""
_BLOCK = ("`", "~", "<")
"""A line that begins like this may begin a block of code."""
_PART_CHARS = 600
"""Minimum number of characters of each message after the first one, on a platform that cannot edit
messages. Shorter parts would fill a group with messages."""
_MOST_PARTS = 4
"""Maximum number of messages that are sent before the reply has ended, on a platform that cannot
edit messages."""
_LAST_TRIES = 2
"""The last edit of a message is tried this many times if the platform asks to wait or gives no
answer. Repeating an edit does no harm."""
_LEAST_PAUSE_S = 0.1
"""Minimum number of seconds between two edits, also if the platform allows more."""


class _State(Enum):
    WAITING = auto()
    """Nothing is sent yet."""
    GROWING = auto()
    """A message was sent, and grows by edits."""
    IN_PARTS = auto()
    """Each part of the words is sent as a separate message."""
    OVER = auto()
    """Nothing more is sent while the model writes."""


class LiveWords:
    """Sends the words of one reply. The task that reads the reply calls `write`, `block_began` and
    `end`. Another task runs `send_finished`. Afterwards the turn calls `finish`, unless code
    followed the words.

    ``begin`` stores a run for the words and returns its id. Nothing is sent before the words have
    ``least_chars`` characters. With ``code_may_follow``, a paragraph is sent only when the next
    line has begun in a way that does not open a block of code.
    """

    def __init__(
        self,
        chat_key: ChatKey,
        outgoing: MessageSender,
        editor: MessageEditor | None,
        begin: Callable[[], Awaitable[str]],
        *,
        least_chars: int,
        code_may_follow: bool,
    ) -> None:
        self.run_id = ""
        """The run of the words; empty before the first attempt to send some of them."""
        self.begun = False
        """Whether sending has begun, so that the reply cannot be dropped any more."""
        self.repeated = False
        """Whether a call of the reply wanted to send the same words again."""
        self._chat_key = chat_key
        self._outgoing = outgoing
        self._editor = editor
        self._every_s = editor.edit_every_s(chat_key) if editor is not None else None
        self._begin = begin
        self._least_chars = least_chars
        self._code_may_follow = code_may_follow
        self._next_line = ""
        self._written = Paragraphs()
        self._news = anyio.Event()
        self._state = _State.WAITING
        self._ended = False
        self._sent = 0
        self._message_id = ""
        self._message_from = 0
        self._changed_at = 0.0
        self._maybe_sent = 0
        """People may see the words up to this position: an edit with them got no answer."""
        self._parts = 0

    @property
    def sent(self) -> str:
        """The words that were sent, or that may have been sent."""
        return self._written.text[: max(self._sent, self._maybe_sent)].strip()

    @property
    def rest(self) -> str:
        """The words that were not sent."""
        return self._written.text[self._sent :].strip()

    def write(self, text: str, next_line: str = "") -> None:
        """Add the next words of the reply. In code mode these are whole lines. ``next_line`` is the
        part of the following line that has arrived."""
        self._written.write(text)
        self._next_line = next_line
        if self._ready():
            self._news.set()

    def block_began(self) -> None:
        """Note that code follows the words. `send_finished` then ends."""
        self._ended = True
        self._news.set()

    def end(self) -> None:
        """Note that the reply has ended."""
        self._ended = True
        self._news.set()

    async def send_finished(self) -> None:
        """Send finished paragraphs until the reply has ended."""
        while not self._ended:
            await self._news.wait()
            self._news = anyio.Event()
            if not self._ready():
                continue
            if self._state is _State.GROWING:
                await self._wait_for_edit(until_end=True)
                if not self._ended:  # otherwise `finish` makes the last edit, or code follows
                    await self._grow(self._written.whole_lines)
            else:
                await self._send_part(self._written.finished)
            if self._ready():
                self._news.set()

    async def finish(self, tail: str = "") -> str:
        """Add ``tail`` to the words. If a message grows by edits, add the rest of the words to it.
        Returns the words that were not sent; the caller must send them."""
        self._written.write(tail)
        for _ in range(_LAST_TRIES):
            if self._state is not _State.GROWING or not self.rest:
                break
            await self._wait_for_edit()
            await self._grow(len(self._written.text))
        self._sent = max(self._sent, self._maybe_sent)
        return self.rest

    def _ready(self) -> bool:
        """Return whether a message or an edit can be sent now."""
        if self._ended or self._state is _State.OVER:
            return False
        written = self._written
        if self._state is _State.GROWING:
            return bool(written.text[self._sent : written.whole_lines].strip())
        fresh = written.text[self._sent : written.finished].strip()
        if self._state is _State.IN_PARTS:
            return len(fresh) >= _PART_CHARS
        if not fresh or len(written.text.strip()) < self._least_chars:
            return False
        follows = written.text[written.finished :].strip() or self._next_line.strip()
        if self._code_may_follow and (not follows or follows.startswith(_BLOCK)):
            return False
        if may_be_no_words(written.text) or looks_like_code(written.text):
            self._state = _State.OVER
            return False
        return True

    async def _send_part(self, end: int) -> None:
        """Send the unsent words up to the position ``end`` as a message."""
        self.begun = True
        if not self.run_id:
            self.run_id = await self._begin()
        words, start = self._written.text[self._sent : end].strip(), self._sent
        try:
            said = (Text(words, markdown=True),)
            receipts = await self._outgoing.send(self._chat_key, said, run_id=self.run_id)
        except DeliveryError as error:
            logger.warning("{}: words were not sent: {}", self._chat_key, error)
            self._state = _State.OVER
            return
        if not all(receipt.state.left for receipt in receipts):
            self._state = _State.OVER
            if not any(receipt.state.left for receipt in receipts):
                return
        self._sent = end
        self._parts += 1
        if self._state is _State.OVER:
            return
        (only, *more) = receipts
        if self._every_s is not None and not more and only.ok and only.message_id:
            self._message_id, self._message_from = only.message_id, start
            self._changed_at = anyio.current_time()
            self._state = _State.GROWING
        else:
            self._state = _State.IN_PARTS if self._parts < _MOST_PARTS else _State.OVER

    async def _grow(self, end: int) -> None:
        """Edit the message, so that it has the words up to the position ``end``. If the platform
        refuses, the message stays as it is, and the further words become other messages. If it asks
        to wait or does not answer, the next edit has the words."""
        assert self._editor is not None, "only an editor lets a message grow"
        words = self._written.text[self._message_from : end].strip()
        said = (Text(words, markdown=True),)
        receipt = await self._editor.edit(self._chat_key, self._message_id, said)
        self._changed_at = anyio.current_time()
        if receipt.state is DeliveryState.UNKNOWN:
            self._maybe_sent = end
        if receipt.ok:
            self._sent = end
        elif receipt.state in (DeliveryState.UNKNOWN, DeliveryState.PENDING):
            return  # the next edit has these words too
        elif self._ended or self._parts >= _MOST_PARTS:
            self._state = _State.OVER
        else:
            self._state = _State.IN_PARTS

    async def _wait_for_edit(self, *, until_end: bool = False) -> None:
        """Wait as long as the platform demands between two edits. With ``until_end``, stop waiting
        when the reply has ended."""
        pause = max(self._every_s or 0.0, _LEAST_PAUSE_S)
        with anyio.move_on_after(self._changed_at + pause - anyio.current_time()):
            while not (until_end and self._ended):
                await self._news.wait()
                if not self._ended:
                    self._news = anyio.Event()
                elif not until_end:
                    await anyio.sleep_forever()


class WithoutRepeats:
    """A `MessageSender` for the calls of a reply whose words were sent while the model wrote them.
    If a call sends a message with the same words, the message is not sent again."""

    def __init__(self, outgoing: MessageSender, words: LiveWords) -> None:
        self._outgoing = outgoing
        self._words = words

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """See `MessageSender.send`."""
        said = self._words.sent
        match segments:
            case (Text(text),) if said and text.split() == said.split():
                self._words.repeated = True
                return (Receipt(state=DeliveryState.SENT, reason="these words were just sent"),)
        return await self._outgoing.send(chat_key, segments, run_id=run_id)
