"""Defines ``/quota``, which shows and changes how much a person, a chat or the bot may use in 24
hours."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.plugins.commands.arguments import Arg
from nekro_core.policy import Quota, without_thread
from nekro_core.policy.limits import Measure
from nekro_core.policy.permissions import CommandPermission
from nekro_core.policy.quotas import QuotaUsage, quota_of_bot, quota_of_chat, quota_of_person

_CHAT, _EACH = "chat", "each"
_FIELDS = {_CHAT: "chat_quota", _EACH: "person_quota"}


def quota_command(services: CommandServices) -> Command:
    """Return the command."""
    say = services.catalogue.say

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

    async def change(
        context: CommandExecutionContext, chat: ChatKey, of: str, changed: Mapping[str, Any]
    ) -> None:
        actions, book = services.actions.now, services.policies.conduct.book
        if of in (_CHAT, _EACH):
            field, table = _FIELDS[of], book.chats.get(str(chat))
            before = getattr(table, field) if table else Quota()
            await actions.set_policy(context, chat, field, _with(before, changed))
            return
        person = book.people.get(f"{context.adapter_key}:{of}")
        after = _with(person.quota if person else Quota(), changed)
        await actions.set_person_quota(context, context.adapter_key, of, after)

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
            changed = {name: _number_in(name, text) for name, text in wanted.items()}
        except ValueError:
            return CmdCtl.failed(say("own.quota.no_number", lang))
        if not of:
            return CmdCtl.failed(say("own.quota.whose", lang))
        if fault := await services.tried(context, change(context, chat, of, changed)):
            return CmdCtl.failed(fault)
        return CmdCtl.success(say("own.quota.done", lang))

    return Command(
        name="quota",
        handler=quota,
        permission=CommandPermission.USER,
        **command_texts(services.catalogue, "quota"),
    )


def _how_to_change(services: CommandServices, context: CommandExecutionContext) -> list[str]:
    return [services.catalogue.say("own.quota.change", context.lang)] * context.is_super_user


def _with(before: Quota, changed: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the quota after these changes; None if it then has no limit."""
    after = {**before.model_dump(exclude_none=True), **changed}
    return {name: value for name, value in after.items() if value is not None} or None


def _number_in(name: str, text: str) -> float | None:
    """Parse a number. Returns None for ``default``, which removes the override. Raises
    `ValueError`."""
    if text.casefold() == "default":
        return None
    return float(text) if name == "money" else int(text)


def _number(value: float) -> str:
    return str(value) if value == int(value) else f"{value:.4g}"


def _most(value: float) -> str:
    return _number(value) if value else "∞"


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
