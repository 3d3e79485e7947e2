"""Defines ``/memory``, which shows and changes what is remembered, ``/compact`` and ``/learn``."""

import sqlite3
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated

import anyio
from loguru import logger

from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.chat import ChatKey, ChatKind, File
from nekro_core.media.errors import MediaError
from nekro_core.memory.background import NoQuickModel
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.knowledge.library import DocumentRefused
from nekro_core.memory.notes.book import NoSuchNote, NoteRefused
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.plugins.commands.arguments import Arg
from nekro_core.policy.permissions import CommandPermission
from nekro_core.store import NoteRow
from nekro_core.system.errors import NekroError

_LISTED = 20
"""Maximum number of notes that one answer lists."""
_TURN_ENDS_S = 30.0
"""Maximum number of seconds that ``/compact`` waits for the end of a turn."""


def memory_commands(
    services: CommandServices,
    memory: MemoryKeeper,
    wait_until_idle: Callable[[ChatKey], Awaitable[None]],
) -> tuple[Command, ...]:
    """Return the commands."""
    catalogue = services.catalogue
    answers = _MemoryAnswers(services, memory)

    async def show(
        context: CommandExecutionContext,
        text: Annotated[str, Arg(positional=True, greedy=True)] = "",
    ) -> CommandResponse:
        what, _, rest = text.strip().partition(" ")
        match what.casefold():
            case "":
                return await answers.own(context)
            case "chat":
                return await answers.of_chat(context)
            case "on" | "off":
                return await answers.switch(context, off=what.casefold() == "off")
            case "forget":
                return await answers.forget(context, rest)
            case "edit":
                return await answers.edit(context, rest)
        return CmdCtl.failed(catalogue.say("own.memory.how", context.lang))

    async def compact(context: CommandExecutionContext) -> CommandResponse:
        chat, say = ChatKey.parse(context.chat_key), catalogue.say
        with anyio.move_on_after(_TURN_ENDS_S) as working:
            await wait_until_idle(chat)
        if working.cancelled_caught:
            return CmdCtl.failed(say("own.compact.works", context.lang))
        try:
            done = await memory.compact(chat)
        except NoQuickModel:
            return CmdCtl.failed(say("own.compact.no_model", context.lang))
        except NekroError as error:
            logger.warning("{}: the conversation is not compacted: {}", chat, error)
            done = False
        if not done or services.inbox is None:
            return CmdCtl.failed(say("own.compact.failed", context.lang))
        await services.inbox.note(chat, "What was said is summarized.", compacts=True)
        return CmdCtl.success(say("own.compact.done", context.lang))

    async def learn(context: CommandExecutionContext) -> CommandResponse:
        return await answers.learn(context)

    return (
        Command(
            name="learn",
            handler=learn,
            permission=CommandPermission.CHAT_ADMIN,
            **command_texts(catalogue, "learn"),
        ),
        Command(
            name="memory",
            handler=show,
            permission=CommandPermission.USER,
            **command_texts(catalogue, "memory"),
        ),
        Command(
            name="compact",
            handler=compact,
            permission=CommandPermission.CHAT_ADMIN,
            **command_texts(catalogue, "compact"),
        ),
    )


class _MemoryAnswers:
    """Carries out ``/learn`` and the subcommands of ``/memory``, and makes their answers."""

    def __init__(self, services: CommandServices, memory: MemoryKeeper) -> None:
        self._say = services.catalogue.say
        self._memory = memory

    async def own(self, context: CommandExecutionContext) -> CommandResponse:
        """Say what is kept about the chat, in one line, and list the notes about the person."""
        chat, lang = ChatKey.parse(context.chat_key), context.lang
        counts = await self._memory.counts(chat)
        lines = [self._say("own.memory.kept", lang, notes=counts.notes, summaries=counts.summaries)]
        if self._memory.scope.is_off(chat, context.user_id):
            return CmdCtl.message("\n".join([*lines, self._say("own.memory.is_off", lang)]))
        notes = await self._memory.notes.listed(chat, about=[context.user_id])
        if not notes:
            lines.append(self._say("own.memory.nothing", lang))
        return CmdCtl.message("\n".join([*lines, *self._lines(notes, lang)]))

    async def of_chat(self, context: CommandExecutionContext) -> CommandResponse:
        """List all notes of the chat, for those who may see them."""
        chat, lang = ChatKey.parse(context.chat_key), context.lang
        if not _may_see_all(context, chat):
            return CmdCtl.failed(self._say("own.memory.not_allowed", lang))
        notes = await self._memory.notes.listed(chat)
        if not notes:
            return CmdCtl.message(self._say("own.memory.nothing_here", lang))
        return CmdCtl.message("\n".join(self._lines(notes, lang)))

    async def switch(self, context: CommandExecutionContext, *, off: bool) -> CommandResponse:
        """Stop remembering things about the person (``off``), or start again."""
        chat, lang = ChatKey.parse(context.chat_key), context.lang
        if not context.user_id:
            return CmdCtl.failed(self._say("command.nobody", lang))
        if not off:
            await self._memory.scope.set_off(chat, context.user_id, off=False)
            return CmdCtl.success(self._say("own.memory.on", lang))
        deleted = await self._memory.switch_off(chat, context.user_id)
        return CmdCtl.success(self._say("own.memory.off", lang, count=deleted))

    async def forget(self, context: CommandExecutionContext, rest: str) -> CommandResponse:
        """Delete a note."""
        chat, lang = ChatKey.parse(context.chat_key), context.lang
        note = await self._changeable(context, chat, rest)
        if note is None:
            return CmdCtl.failed(self._say("own.memory.no_such", lang))
        await self._memory.notes.delete(chat, note.note_id)
        return CmdCtl.success(self._say("own.memory.forgotten", lang))

    async def edit(self, context: CommandExecutionContext, rest: str) -> CommandResponse:
        """Replace the text of a note."""
        chat, lang = ChatKey.parse(context.chat_key), context.lang
        number, _, text = rest.strip().partition(" ")
        note = await self._changeable(context, chat, number)
        if note is None:
            return CmdCtl.failed(self._say("own.memory.no_such", lang))
        try:
            await self._memory.notes.rewrite(chat, note.note_id, text, said_by=context.user_id)
        except NoteRefused as error:
            return CmdCtl.failed(self._say("command.refused", lang, reason=error))
        return CmdCtl.success(self._say("own.memory.changed", lang))

    async def learn(self, context: CommandExecutionContext) -> CommandResponse:
        """Store the files of the message as documents of the chat."""
        chat, lang = ChatKey.parse(context.chat_key), context.lang
        segments = context.record.segments if context.record else ()
        files = [each.media for each in segments if isinstance(each, File) and each.media.path]
        if not files:
            return CmdCtl.failed(self._say("own.learn.no_file", lang))
        lines, bad = [], False
        for medium in files:
            try:
                data = await anyio.Path(medium.path).read_bytes()
                stored = await self._memory.knowledge.learn(
                    chat, medium.name, data, given_by=context.user_id
                )
            except (DocumentRefused, MediaError) as error:
                lines.append(self._say("command.refused", lang, reason=error))
                bad = True
            except (OSError, sqlite3.Error) as error:
                logger.error("{}: a document is not learned: {}", chat, error)
                lines.append(self._say("command.not_kept", lang))
                bad = True
            else:
                lines.append(self._say("own.learn.done", lang, name=medium.name, n=stored.pieces))
        return (CmdCtl.failed if bad else CmdCtl.success)("\n".join(lines))

    async def _changeable(
        self, context: CommandExecutionContext, chat: ChatKey, number: str
    ) -> NoteRow | None:
        """Return the note with this number if the person may change it: the note is about the
        person, the person said it, or the person may see all notes of the chat. A note of a linked
        chat is changed in that chat, or by a super user. Return None if there is no such note, or
        if the person may not change it."""
        wanted = number.strip().lstrip("#")
        if not wanted.isascii() or not wanted.isdigit() or len(wanted) > 18:
            return None
        try:
            note = await self._memory.notes.get(chat, int(wanted))
        except NoSuchNote:
            return None
        if note.chat_key == chat:
            own = bool(context.user_id) and context.user_id in (note.about_id, note.said_by)
            return note if own or _may_see_all(context, chat) else None
        # A linked chat may be on another platform, where the same id is another person's, and its
        # administrators are other people.
        return note if context.is_super_user else None

    def _lines(self, notes: list[NoteRow], lang: str) -> list[str]:
        lines = []
        for note in notes[:_LISTED]:
            name = note.about_name or note.about_id
            about = f"{name}: " if name else ""
            since = f"{datetime.fromtimestamp(note.since, UTC):%Y-%m-%d}"
            lines.append(f"{note.note_id}. {about}{note.text} ({since})")
        if (more := len(notes) - _LISTED) > 0:
            lines.append(self._say("own.memory.more", lang, count=more))
        return lines


def _may_see_all(context: CommandExecutionContext, chat: ChatKey) -> bool:
    """Return True if the person may see all notes of the chat. In a private chat this is always so,
    because nobody else is there. In a group the person must be an administrator of the group or a
    super user."""
    alone = chat.kind is ChatKind.PRIVATE
    return alone or context.is_super_user or context.is_chat_admin
