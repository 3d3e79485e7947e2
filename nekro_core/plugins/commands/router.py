"""Recognizes commands among all messages, runs them, and restores their open questions after a
restart.
"""

import json
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
from loguru import logger

from nekro_core.chat import Author, ChatKey, Record, Text
from nekro_core.chat.catalogue import Catalogue
from nekro_core.plugins.authoring.command_response import Question
from nekro_core.plugins.commands.book import CommandRegistry, RegisteredCommand
from nekro_core.plugins.commands.call import CommandCall, CommandRunner, ContextFactory, chosen
from nekro_core.plugins.commands.help import help_command
from nekro_core.plugins.commands.parsing import command_line_of, command_word
from nekro_core.plugins.commands.pending_questions import (
    PendingQuestions,
    QuestionStore,
    TooManyQuestions,
)
from nekro_core.policy.permissions import CommandAccess, CommandPermission, CommandSettings
from nekro_core.store import StoreError, WaitingRow
from nekro_core.store.ownership import ChatScope, every_chat
from nekro_core.system.keyed_queue import KeyedLimiter
from nekro_core.tools.outcome import ToolFailure

_TOLD_LATE_S = 3600.0
"""If a question's deadline passed while the bot did not run, the chat gets the message about it
only if the deadline was at most this many seconds ago."""


async def restore_questions(
    waits: PendingQuestions,
    book: CommandRegistry,
    context_for: ContextFactory,
    chats: ChatScope,
) -> set[int]:
    """See `CommandRouter.restore`."""
    rows, answers = await waits.left(chats)
    for row in rows:
        try:
            await _restore(row, waits, book, context_for)
        except (LookupError, ValueError, TypeError, TooManyQuestions) as error:
            logger.warning("the open question {} is dropped: {}", row.data, error)
            await waits.forget_row(row)
    return answers


async def _restore(
    row: WaitingRow, waits: PendingQuestions, book: CommandRegistry, context_for: ContextFactory
) -> None:
    known, chat = json.loads(row.data), ChatKey.parse(row.chat_key)
    command, said = str(known["command"]), str(known["said"])
    of_plugin = (entry for entry in book if entry.owner == row.plugin)
    entry = next((each for each in of_plugin if each.command.name == command), None)
    if entry is None or entry.plugin is None:
        raise LookupError(f"there is no command {command} of {row.plugin}")

    async def late() -> None:
        if said:
            ctx = context_for(chat, user_id=row.user_id, user_name="", message_id="")
            with suppress(ToolFailure):
                await ctx.called_for(row.plugin, given="").send((Text(said),))

    seconds = waits.remaining(row)
    if seconds > 0:
        question = Question(
            callback_cmd=command,
            options=tuple(known["options"]),
            timeout=seconds,
            context_data=known["context"],
        )
        after = int(known["after"])
        waits.open(chat, row.user_id, entry, question, late, said=said, after=after)
        return
    await waits.forget_row(row)
    if seconds > -_TOLD_LATE_S:
        await late()


_LOOK_S = 0.2
"""Pause in seconds between two looks whether a command has ended."""
_ROUNDS_WAITING = 8
"""At most this number times ``at_once`` commands of a chat may wait. Further commands are
dropped."""

CommandJob = Callable[[], Coroutine[Any, Any, None]]
Start = Callable[[CommandJob], object]


class CommandRouter:
    """Checks every record for a command before the agent gets the record. A command never wakes the
    agent, but the model sees the command and its answer in the history. ``adapter_of`` returns the
    adapter of an instance. ``language`` returns the language of all answers; if it returns an empty
    text, answers are in the language of people's messages."""

    def __init__(
        self,
        book: CommandRegistry,
        settings: CommandSettings,
        context_for: ContextFactory,
        adapter_of: Callable[[str], str],
        catalogue: Catalogue,
        *,
        language: Callable[[], str] = lambda: "",
        access: CommandAccess | None = None,
        keeper: QuestionStore | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.book = book
        self._access = access = access or CommandAccess(settings)
        book.add_builtin(help_command(book, settings, catalogue, access))
        self._adapter_of = adapter_of
        self._settings = settings
        self._context_for = context_for
        self._waits = PendingQuestions(settings.longest_wait_s, keeper, wall=wall)
        self._caller = CommandRunner(
            book,
            settings,
            self._waits,
            context_for,
            catalogue,
            language=language,
            access=access,
        )
        self._at_work = KeyedLimiter(settings.at_once)

    @property
    def at_work(self) -> int:
        """The number of commands that run or wait until they may run, plus the number of open
        questions."""
        return len(self._at_work) + len(self._waits)

    def is_busy(self, chat_key: ChatKey) -> bool:
        """Return True if a command of this chat runs or waits until it may run."""
        return self._at_work.callers(chat_key) > 0

    async def wait_until_idle(self, chat_key: ChatKey) -> None:
        """Wait until no command of this chat runs or waits until it may run."""
        while self.is_busy(chat_key):  # noqa: ASYNC110 (waited for once for each command)
            await anyio.sleep(_LOOK_S)

    def on_record(self, record: Record, start: Start) -> str:
        """Start the command that a record contains, or pass the record to the command whose
        question it answers. If the typed name belongs to several commands, the chat gets a list of
        them instead. Returns the command's name with its module (of several commands, the first
        one's), or an empty text if the record is neither a command nor an answer. ``start`` runs
        the bot's own commands; a plugin's command runs as a task of the plugin."""
        if record.author is not Author.PERSON or record.recalled:
            return ""
        user = record.sender.user_id
        if (found := self._typed(record)) is not None:
            if record.from_history:
                # Do not run commands of messages that were fetched from the platform's history. An
                # answer to an open question is accepted below: it is newer than the question.
                return ""
            entries, line = found
            self._waits.close((record.chat_key, user))
            if len(entries) == 1:
                self._begin(CommandCall(entry=entries[0], record=record, line=line), start)
            else:
                call = CommandCall(entry=entries[0], record=record, line=line)
                start(
                    partial(self._in_turn, call, partial(self._caller.list_matches, call, entries))
                )
            return entries[0].long_name
        if (wait := self._waits.take(record.chat_key, user, record.seq)) is None:
            return ""
        line = chosen(wait.question, command_line_of(record))
        self._begin(CommandCall(entry=wait.entry, record=record, line=line, wait=wait), start)
        return wait.entry.long_name

    async def restore(self, chats: ChatScope = every_chat) -> set[int]:
        """Restore the open questions that an earlier process left in some chats. Returns the
        numbers of the records that are answers which commands of that process were still
        processing; the agent must not answer these records. Call this once for each chat, after the
        plugins were loaded. Raises `StoreUnavailable`."""
        return await restore_questions(self._waits, self.book, self._context_for, chats)

    def forget(self, chat_key: ChatKey, user_id: str) -> None:
        """Close the open question to this person, if there is one."""
        self._waits.close((chat_key, user_id))

    def release(self, chats: ChatScope) -> None:
        """Forget the open questions of some chats, because another process takes the chats over.
        Their rows stay, so that `restore` of the other process finds the questions."""
        self._waits.release(chats)

    def is_privileged(self, record: Record) -> bool:
        """Return True if the operator gave the author of a record the permission ``advanced`` or
        more."""
        adapter = self._adapter_of(record.chat_key.instance)
        standing = self._access.standing(record.chat_key, adapter, record.sender)
        return standing.allows(CommandPermission.ADVANCED)

    def is_command(self, record: Record) -> bool:
        """Return True if a record is a command. Used for records that an earlier process
        received."""
        return record.author is Author.PERSON and self._typed(record) is not None

    def _typed(self, record: Record) -> tuple[list[RegisteredCommand], str] | None:
        """Get the command of a record and the text after its name. If the record names only a
        group, the result has all commands of the group. None if the record is not a command."""
        prefixes = self._settings.prefixes
        first = next((part.text for part in record.segments if isinstance(part, Text)), "")
        if not first.lstrip().startswith(prefixes):
            return None
        line = command_line_of(record)
        prefix = next((each for each in prefixes if line.startswith(each)), "")
        name, rest = command_word(line[len(prefix) :]) if prefix else ("", "")
        if not name:
            return None
        adapter = self._adapter_of(record.chat_key.instance)
        sub, behind = command_word(rest)
        if sub and (found := self.book.find(f"{name}.{sub}", adapter)):
            return found, behind
        found = self.book.find(name, adapter) or self.book.members(name, adapter)
        return (found, rest) if found else None

    def _begin(self, call: CommandCall, start: Start) -> None:
        work = self._caller.run if call.wait is None else self._answered
        errand = partial(self._in_turn, call, partial(work, call))
        if (plugin := call.entry.plugin) is None:
            start(errand)
        else:
            name = f"{plugin.key}: command {call.entry.command.name} in {call.record.chat_key}"
            plugin.tasks.start(errand, name=name)

    async def _answered(self, call: CommandCall) -> None:
        assert call.wait is not None, "only an answer comes here"
        try:
            await self._waits.at_work(call.wait, call.record.seq)
        except StoreError as error:
            logger.error("{}: an answer cannot be stored: {}", call.record.chat_key, error)
        await self._caller.run(call)
        self._waits.done(call.record.seq)

    async def _in_turn(self, call: CommandCall, job: CommandJob) -> None:
        """Run the job as soon as fewer than ``at_once`` commands of its chat run. Exceptions are
        logged and not raised."""
        chat, at_once = call.record.chat_key, self._settings.at_once
        if self._at_work.callers(chat) >= at_once * (1 + _ROUNDS_WAITING):
            logger.warning("{}: {} is dropped: too many commands wait", chat, call.entry.long_name)
            return
        try:
            async with self._at_work.of(chat):
                await job()
        except Exception:  # noqa: BLE001 - an error of one command must not end other commands
            logger.exception("{}: {} failed", chat, call.entry.long_name)
