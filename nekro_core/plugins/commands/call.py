"""Runs one call of a command: checks the permission, reads the arguments, sends the answers."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
from loguru import logger

from nekro_core.chat import Author, ChatKey, File, Image, Record, Segment, Text, plain_text
from nekro_core.chat.catalogue import Catalogue, language_of
from nekro_core.chat.catalogue.languages import SupportedLang, get_text
from nekro_core.chat.mentions import text_segments
from nekro_core.plugins.authoring.command_response import (
    CommandOutputSegment,
    CommandOutputType,
    CommandResponse,
    Question,
)
from nekro_core.plugins.authoring.commands import CommandExecutionContext
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.commands.book import CommandRegistry, RegisteredCommand
from nekro_core.plugins.commands.parsing import BadArgument, read_answer, read_arguments
from nekro_core.plugins.commands.pending_questions import (
    PendingQuestion,
    PendingQuestions,
    TooManyQuestions,
)
from nekro_core.plugins.host.hooks import hook_result
from nekro_core.policy.permissions import CommandAccess, CommandPermission, CommandSettings
from nekro_core.tools.outcome import ToolFailure


async def send_response(ctx: AgentCtx, response: CommandResponse, lang: str) -> None:
    """Send an answer to the chat of the command. ``[@id:10001@]`` in its texts is a mention.
    Raises `ToolFailure` if it cannot be sent."""
    segments: list[Segment] = []
    if text := get_text(response.message, "", lang).strip():
        segments += text_segments(text)
    for part in response.output_segments:
        segments += await _segments(ctx, part)
    if response.question and (listed := numbered(response.question.options)):
        segments.append(Text(listed if segments else listed.strip()))
    if segments:
        await ctx.send(segments)


def numbered(options: Sequence[str]) -> str:
    """Number the options, one in each line, with a line break before the first."""
    return "".join(f"\n{number}. {option}" for number, option in enumerate(options, 1))


async def _segments(ctx: AgentCtx, part: CommandOutputSegment) -> Sequence[Segment]:
    kind = CommandOutputType(part.type)
    if kind is CommandOutputType.TEXT:
        return text_segments(part.text)
    source: str | Path = Path(part.file_path) if part.file_path else part.web_url
    if kind is CommandOutputType.IMAGE:
        return (Image(await ctx.medium(source, name=part.file_name, expect="image")),)
    return (File(await ctx.medium(source, name=part.file_name)),)


LANGS = {"en": SupportedLang.EN_US, "zh": SupportedLang.ZH_CN, "ja": SupportedLang.JA_JP}
_OLDER = 50
"""Number of records that are read to guess the language of a chat. Records such as ``/help`` are in
no language, so the newest ten records may not be enough."""


class ContextFactory(Protocol):
    """The type of `PluginRegistry.context_for`."""

    def __call__(
        self, chat_key: ChatKey, *, user_id: str, user_name: str, message_id: str
    ) -> AgentCtx:
        """Make the context of one message."""


class CommandCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a command. The person typed the command or, if ``wait`` is set, replied to the
    question ``wait``."""

    entry: RegisteredCommand
    record: Record
    line: str
    wait: PendingQuestion | None = None


class CommandRunner:
    """Runs calls of commands. A failure is reported to the chat with a sentence from the
    catalogue."""

    def __init__(
        self,
        book: CommandRegistry,
        settings: CommandSettings,
        waits: PendingQuestions,
        context_for: ContextFactory,
        catalogue: Catalogue,
        *,
        language: Callable[[], str] = lambda: "",
        access: CommandAccess | None = None,
    ) -> None:
        self._book = book
        self._settings = settings
        self._access = access or CommandAccess(settings)
        self._waits = waits
        self._context_for = context_for
        self._catalogue = catalogue
        self._language = language

    async def run(self, call: CommandCall) -> None:
        """Run a command if the person has the permission."""
        entry = call.entry
        context = await self._context(call)
        name = entry.spoken
        wanted = self._access.rule(
            call.record.chat_key, entry.setting_names(), entry.command.permission
        )
        if wanted is None:
            await self._say(context, "command.off", name=name)
            return
        if not context.standing.allows(wanted):
            await self._say(context, "command.not_allowed", name=name)
            return
        try:
            arguments = self._arguments(call)
        except BadArgument as error:
            await self._say_fault(context, call, error)
            return
        logger.info("{}: {} by {}", context.chat_key, entry.long_name, context.user_id or "nobody")
        work = partial(self._work, call, context, arguments)
        if entry.plugin is None:
            await work()
        elif (
            await hook_result(entry.plugin, f"its command {name}", work, self._settings.command_s)
            is None
        ):
            await self._say(context, "command.too_long", name=name)

    async def list_matches(self, call: CommandCall, entries: Sequence[RegisteredCommand]) -> None:
        """Send a list of the commands that a name may mean: those with the same name, or those of a
        group."""
        context = await self._context(call)
        prefix = self._settings.prefixes[0]
        shown = [
            usage_of(entry, prefix, context.lang)
            if "." in entry.command.name
            else f"{prefix}{entry.long_name}"
            for entry in entries
        ]
        described = [
            f"{line}: {entry.command.description_in(context.lang)}".rstrip(": ")
            for line, entry in zip(shown, entries, strict=True)
        ]
        await self._say(context, "command.which", names="\n".join(described))

    def _arguments(self, call: CommandCall) -> Mapping[str, Any]:
        signature = call.entry.signature
        if call.wait is None:
            return read_arguments(signature, call.line)
        return read_answer(signature, call.line, call.wait.question.context_data)

    async def _work(
        self, call: CommandCall, context: CommandExecutionContext, arguments: Mapping[str, Any]
    ) -> bool:
        """Run the handler and send its answers. Always returns True, even after a failure."""
        name = call.entry.spoken
        try:
            answered = call.entry.command.handler(context, **arguments)
            if inspect.isasyncgen(answered):
                async with aclosing(answered) as answers:
                    async for answer in answers:
                        await self._answer(call, context, answer)
            else:
                await self._answer(call, context, await answered)
        except ToolFailure as failure:
            await self._say(context, "command.failed_because", name=name, reason=failure)
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: its command {} failed", call.entry.owner, name)
            await self._say(context, "command.failed", name=name)
        return True

    async def _answer(
        self, call: CommandCall, context: CommandExecutionContext, answer: object
    ) -> None:
        if answer is None:
            return
        if isinstance(answer, str):
            answer = CommandResponse(message=answer)
        if not isinstance(answer, CommandResponse):
            raise TypeError(f"it gave a {type(answer).__name__}, expected CommandResponse")
        if answer.question is not None:
            self._ask(call, context, answer.question)
        assert context.ctx is not None
        await send_response(context.ctx, answer, context.lang)

    def _ask(self, call: CommandCall, context: CommandExecutionContext, question: Question) -> None:
        plugin = call.entry.plugin
        target = self._book.of_plugin(plugin, question.callback_cmd) if plugin else None
        if target is None:
            raise LookupError(f"it waits for {question.callback_cmd!r}: there is no such command")
        if not context.user_id:
            raise ToolFailure(self._catalogue.say("command.nobody", context.lang))

        said = get_text(question.on_timeout_message, "", context.lang).strip()

        async def late() -> None:
            if said:
                await self._send(context, text_segments(said))

        try:
            self._waits.open(
                call.record.chat_key,
                context.user_id,
                target,
                question,
                late,
                said=said,
                after=call.record.seq,
            )
        except TooManyQuestions as error:
            raise ToolFailure(str(error)) from None

    async def _context(self, call: CommandCall) -> CommandExecutionContext:
        record = call.record
        ctx = self._context_for(
            record.chat_key,
            user_id=record.sender.user_id,
            user_name=record.sender.name,
            message_id=record.message_id,
        ).called_for(call.entry.owner, given=call.line)
        person = self._access.standing(record.chat_key, ctx.adapter_key, record.sender)
        return CommandExecutionContext(
            user_id=record.sender.user_id,
            chat_key=str(record.chat_key),
            username=record.sender.name,
            adapter_key=ctx.adapter_key,
            is_super_user=person is CommandPermission.SUPER_USER,
            is_advanced_user=person.allows(CommandPermission.ADVANCED),
            is_chat_admin=person.allows(CommandPermission.CHAT_ADMIN),
            lang=await self._lang(ctx, record),
            text=call.line,
            context_data=call.wait.question.context_data if call.wait else {},
            ctx=ctx,
            record=record,
        )

    async def _lang(self, ctx: AgentCtx, record: Record) -> SupportedLang:
        fixed = self._language()
        language = fixed or language_of(_texts(record.segments))
        if not fixed and language == "en":
            older = await ctx.recent_records(_OLDER)
            people = [each for each in older if each.author is Author.PERSON]
            language = language_of(text for each in people for text in _texts(each.segments))
        return LANGS[language]

    async def _say_fault(
        self, context: CommandExecutionContext, call: CommandCall, error: BadArgument
    ) -> None:
        fault = self._catalogue.say(
            f"command.argument.{error.fault}",
            context.lang,
            name=error.name,
            came=error.came,
            expected=error.expected,
        )
        if call.wait is not None:
            self._waits.reopen(call.wait)
            options = numbered(call.wait.question.options)
            await self._send(context, (Text(fault + options),))
            return
        usage = usage_of(call.entry, self._settings.prefixes[0], context.lang)
        await self._say(context, "command.usage", fault=fault, usage=usage)

    async def _say(self, context: CommandExecutionContext, key: str, **values: object) -> None:
        said = self._catalogue.say(key, context.lang, **values)
        await self._send(context, (Text(said),))

    async def _send(self, context: CommandExecutionContext, said: Sequence[Segment]) -> None:
        assert context.ctx is not None
        try:
            await context.ctx.send(said)
        except ToolFailure as error:
            text = plain_text(tuple(said))
            logger.warning("{}: {!r} could not be sent: {}", context.chat_key, text, error)


def usage_of(entry: RegisteredCommand, prefix: str, lang: str) -> str:
    """Get the usage line of a command: the line that its author wrote, or a line made from its
    arguments."""
    if given := entry.command.usage_in(lang):
        return given
    return f"{prefix}{entry.spoken} {entry.signature.usage}".strip()


def chosen(question: Question, line: str) -> str:
    """Get the option that a line names by number or text; the line itself if it names none."""
    options = question.options
    if line.isascii() and line.isdecimal() and len(line) < 4 and 1 <= int(line) <= len(options):
        return options[int(line) - 1]
    return next((each for each in options if each.casefold() == line.casefold()), line)


def _texts(segments: Sequence[Segment]) -> list[str]:
    return [segment.text for segment in segments if isinstance(segment, Text)]
