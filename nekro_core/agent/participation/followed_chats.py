"""Remembers the newest lines of the chats in which the bot follows the talk, and decides for each
new message whether its author goes on talking to the bot."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio.lowlevel

from nekro_core.agent.participation.addressee import AddresseeModel
from nekro_core.agent.participation.conversation import WINDOW, AimedLine, Conversation, SpokenLine
from nekro_core.agent.participation.facts import NEARBY
from nekro_core.agent.participation.records import BOT, spoken_line
from nekro_core.agent.participation.verdict import FollowVerdict, verdict_of
from nekro_core.chat import Author, ChatKey, Record
from nekro_core.store import Store

_MOST_CHATS = 64
"""Maximum number of chats whose lines stay in memory, 600 kB each in a busy chat. The lines of
another chat are read from the store again when they are needed."""
_MOST_READ = 200
"""Maximum number of records that are read for one message. If more records have been stored since
the last record that was read, the conversation is dropped, and only the newest records are read."""


@dataclass(slots=True)
class _FollowedChat:
    conversation: Conversation = field(default_factory=Conversation)
    members: OrderedDict[str, str] = field(default_factory=OrderedDict)
    """Maps the names of the people who wrote lately, in lower case, to their ids."""
    through: int = 0
    """The sequence number of the newest record that was read."""
    askers: dict[str, str] = field(default_factory=dict)
    """Maps the id of each run that sent a message to the id of the person whom its turn
    answered."""
    lines_without_bot: int = NEARBY
    """The number of lines since the newest line that the bot wrote or that names the bot. From
    `NEARBY` on, the bot takes no part in the talk."""

    def begin_anew(self) -> None:
        """Forget all lines."""
        self.conversation, self.lines_without_bot = Conversation(), NEARBY


class FollowedChats:
    """The conversations of all chats. All lines are read from the store, in the order in which they
    were stored. So the decisions stay the same after a restart. They also stay the same if a plugin
    hides a message from the bot."""

    def __init__(self, store: Store, model: AddresseeModel | None = None) -> None:
        self._store = store
        self._model = model
        self._chats: OrderedDict[ChatKey, _FollowedChat] = OrderedDict()

    async def judge(self, record: Record, calls_bot: Callable[[Record], bool]) -> FollowVerdict:
        """Decide about a message of a person, after reading the earlier records of the chat.

        Args:
            record: The message. It may be judged several times, for example after a restart.
            calls_bot: Says whether a message calls the bot by a name.
        """
        key = record.chat_key
        chat = self._chats.get(key)
        if chat is None or chat.through >= record.seq:
            chat = self._chats[key] = _FollowedChat()
        self._chats.move_to_end(key)
        while len(self._chats) > _MOST_CHATS:
            self._chats.popitem(last=False)
        await self._catch_up(chat, record, calls_bot)
        line = self._line_of(chat, record, calls_bot)
        if line is None:
            return FollowVerdict(goes_on=False)
        return await self._hear(chat, line)

    def forget(self, chat_key: ChatKey) -> None:
        """Drop the lines of a chat from memory, because some of them were erased."""
        self._chats.pop(chat_key, None)

    async def _catch_up(
        self, chat: _FollowedChat, record: Record, calls_bot: Callable[[Record], bool]
    ) -> None:
        """Read the records between the last record that was read and this record."""
        messages = self._store.messages
        if chat.through and messages.comes_next(record.chat_key, chat.through, record.seq):
            chat.through = record.seq
            return
        if chat.through:
            records = await messages.after(record.chat_key, chat.through, _MOST_READ + 1)
            if len(records) > _MOST_READ:
                records = await self._anew(chat, record)
        else:
            records = await self._anew(chat, record)
        await self._find_askers(chat, records)
        for each in records:
            if each.seq >= record.seq:
                break
            if each.begins_anew:
                chat.begin_anew()
            line = self._line_of(chat, each, calls_bot)
            if line is not None:
                await self._hear(chat, line)
                # A hundred lines take up to 200 ms: let other tasks run between two lines.
                await anyio.lowlevel.checkpoint()
        chat.through = record.seq

    async def _anew(self, chat: _FollowedChat, record: Record) -> list[Record]:
        chat.begin_anew()
        return await self._store.messages.newest(record.chat_key, WINDOW, before=record.seq)

    async def _find_askers(self, chat: _FollowedChat, records: Sequence[Record]) -> None:
        """Find out whom the messages of the bot answered."""
        runs = {each.run_id for each in records if each.author is Author.BOT} - {*chat.askers}
        if not runs:
            return
        turns = self._store.turns
        for run in runs:
            turn = await turns.of_run(run) if run else None
            chat.askers[run] = turn.user_id if turn else ""
        for run in [*chat.askers][:-WINDOW]:
            del chat.askers[run]

    def _line_of(
        self, chat: _FollowedChat, record: Record, calls_bot: Callable[[Record], bool]
    ) -> SpokenLine | None:
        if record.author is Author.PERSON and record.sender.name:
            name = record.sender.name.casefold()
            chat.members[name] = record.sender.user_id
            chat.members.move_to_end(name)
            while len(chat.members) > WINDOW:
                chat.members.popitem(last=False)
        asker = chat.askers.get(record.run_id, "") if record.author is Author.BOT else ""
        called = record.author is Author.PERSON and calls_bot(record)
        return spoken_line(record, members=chat.members, asker=asker, calls_bot=called)

    async def _hear(self, chat: _FollowedChat, line: SpokenLine) -> FollowVerdict:
        conversation, without_bot = chat.conversation, chat.lines_without_bot
        with_bot = line.speaker == BOT or BOT in line.named
        chat.lines_without_bot = 0 if with_bot else without_bot + 1
        if without_bot >= NEARBY:
            # The bot takes no part in this talk, so there is nothing to estimate.
            conversation.add(AimedLine(line, dict.fromkeys(line.named, 1.0)))
            return FollowVerdict(goes_on=False)
        while conversation.count_words():
            # Up to 300 lines may have come while the bot took no part: let other tasks run.
            await anyio.lowlevel.checkpoint()
        self._model = self._model or AddresseeModel.load()
        reading = self._model.add_line(conversation, line, BOT)
        return verdict_of(reading, line, self._model.threshold)
