"""Defines the commands that show what the bot does in a chat and how much may be used there:
status, quota."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import anyio
from loguru import logger

from nekro_core import __version__
from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.chat import ChatKey, DeliveryState
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.plugins.commands.arguments import Arg
from nekro_core.policy import InvalidOverride, Quota, without_thread
from nekro_core.policy.limits import Measure
from nekro_core.policy.permissions import CommandPermission
from nekro_core.policy.quotas import QuotaUsage, quota_of_bot, quota_of_chat, quota_of_person

_CHAT, _EACH = "chat", "each"
_WAITING = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.UNKNOWN)
_MOST_WAITING = 1000
_ENDS_S = 1.0
"""Seconds that ``/status`` waits for the end of a turn before it says that the bot works. A turn
still works for a moment after its answer, although people see the turn as ended."""


def status_commands(
    services: CommandServices, wait_until_idle: Callable[[ChatKey], Awaitable[None]]
) -> tuple[Command, ...]:
    """Return the commands. ``wait_until_idle`` returns when no turn of the chat runs."""
    say, began = services.catalogue.say, services.clock()
    conduct = services.policies.conduct

    async def status(context: CommandExecutionContext) -> CommandResponse:
        chat, lang = ChatKey.parse(context.chat_key), context.lang
        manner = services.policies.of(chat)
        with anyio.move_on_after(_ENDS_S) as working:
            await wait_until_idle(chat)
        waiting = await services.outbox.listed(_WAITING, chat_key=chat, limit=_MOST_WAITING)
        used = (await quota_of_chat(services, chat)).used
        lines = [
            say(
                "own.status.bot",
                lang,
                name=manner.names[0] if manner.names else "nekro-core",
                version=__version__,
                hours=f"{(services.clock() - began) / 3600:.1f}",
            ),
            say(f"own.status.{manner.state.value}", lang),
            say("own.status.works" if working.cancelled_caught else "own.status.rests", lang),
            say("own.status.model", lang, model=manner.model.profile.name, mode=manner.mode),
            say("own.status.used", lang, turns=used.turns, tokens=used.tokens),
        ]
        if waiting:
            lines.append(say("own.status.waiting", lang, count=len(waiting)))
        return CmdCtl.message("\n".join(lines))

    async def show(context: CommandExecutionContext, chat: ChatKey, of: str) -> CommandResponse:
        person = of if of and context.is_super_user else context.user_id
        accounts = []
        if person and of != _CHAT:
            accounts.append(await quota_of_person(services, chat, person))
        if of in ("", _CHAT):
            accounts.append(await quota_of_chat(services, chat))
        if not of and context.is_super_user:
            accounts.append(await quota_of_bot(services))
        lines = [_told(account, say, context.lang) for account in accounts]
        return CmdCtl.message("\n".join([*lines, *_how_to_change(services, context)]))

    async def quota(
        context: CommandExecutionContext,
        of: Annotated[str, Arg(positional=True)] = "",
        turns: str = "",
        tokens: str = "",
        money: str = "",
    ) -> CommandResponse:
        chat, lang = without_thread(ChatKey.parse(context.chat_key)), context.lang
        given = {"turns": turns, "tokens": tokens, "money": money}
        wanted = {name: text for name, text in given.items() if text}
        if not wanted:
            return await show(context, ChatKey.parse(context.chat_key), of)
        if not context.is_super_user:
            return CmdCtl.failed(say("own.quota.not_allowed", lang))
        try:
            changed = {name: _limit(name, text) for name, text in wanted.items()}
        except ValueError:
            return CmdCtl.failed(say("own.quota.no_number", lang))
        if not of:
            return CmdCtl.failed(say("own.quota.whose", lang))
        table, field, before = _place(services, context, chat, of)
        after = {**before.model_dump(exclude_none=True), **changed}
        kept = {name: value for name, value in after.items() if value is not None}
        try:
            await conduct.put(table, field, kept or None)
        except (InvalidOverride, OSError) as error:
            logger.error("a quota of {} cannot be written: {}", chat, error)
            return CmdCtl.failed(say("command.not_kept", lang))
        return CmdCtl.success(say("own.quota.done", lang))

    return (
        Command(
            name="status",
            handler=status,
            permission=CommandPermission.USER,
            **command_texts(services.catalogue, "status"),
        ),
        Command(
            name="quota",
            handler=quota,
            permission=CommandPermission.USER,
            **command_texts(services.catalogue, "quota"),
        ),
    )


def _told(account: QuotaUsage, say: Callable[..., str], lang: str) -> str:
    """Return a quota and its usage in words."""
    parts = [
        say(f"own.quota.{measure.value}", lang, used=_number(used), most=_most(limit))
        for measure, used, limit in account.measures()
        if limit or used or measure is not Measure.MONEY
    ]
    if account.used.published_cost:
        parts[-1] += f" ({say('own.quota.published', lang)})"
    return f"{say(f'own.quota.of_{account.whose}', lang)} {', '.join(parts)}"


def _how_to_change(services: CommandServices, context: CommandExecutionContext) -> list[str]:
    return [services.catalogue.say("own.quota.change", context.lang)] * context.is_super_user


def _place(
    services: CommandServices, context: CommandExecutionContext, chat: ChatKey, of: str
) -> tuple[tuple[str, str], str, Quota]:
    """Return the table and the field of a quota in the file, and the quota's current value."""
    book = services.policies.conduct.book
    if of in (_CHAT, _EACH):
        field = "chat_quota" if of == _CHAT else "person_quota"
        known = book.chats.get(str(chat))
        return ("chats", str(chat)), field, getattr(known, field) if known else Quota()
    person = f"{context.adapter_key}:{of}"
    said = book.people.get(person)
    return ("people", person), "quota", said.quota if said else Quota()


def _limit(name: str, text: str) -> Any:
    """Parse a number. Returns None for ``default``, which removes the override. Raises
    `ValueError`."""
    if text.casefold() == "default":
        return None
    number: float = float(text) if name == "money" else int(text)
    if not 0 <= number < float("inf"):
        raise ValueError(text)
    return number


def _number(value: float) -> str:
    return str(value) if value == int(value) else f"{value:.4g}"


def _most(value: float) -> str:
    return _number(value) if value else "∞"
