"""Defines the commands that change how the bot behaves in a chat: on, off, observe, persona,
participation, permit."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.agent.prompt.transcript import shortened
from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.plugins.commands.arguments import Arg
from nekro_core.policy import ChatState, without_thread
from nekro_core.policy.permissions import CommandPermission, folded

_SHOWN = 1500
_DEFAULT = "default"
"""The argument of a command that removes the chat's override."""

WriteOverride = Callable[[CommandExecutionContext, str, object | None], Awaitable[str]]
Modes = Literal["mentioned", "follows", "lively", "default"]
Wanted = Literal["public", "user", "chat_admin", "advanced", "super_user", "off", "default"]


def policy_commands(services: CommandServices) -> tuple[Command, ...]:
    """Return the commands. They write to ``conduct.toml``, so a change survives a restart."""
    say = services.catalogue.say

    async def put(context: CommandExecutionContext, field: str, value: object | None) -> str:
        """Write a field. Returns an empty text, or why the write failed."""
        chat = without_thread(ChatKey.parse(context.chat_key))
        return await services.tried(
            context, services.actions.now.set_policy(context, chat, field, value)
        )

    def switch(state: ChatState) -> Command:
        async def turn(context: CommandExecutionContext) -> CommandResponse:
            if fault := await put(context, "state", state.value):
                return CmdCtl.failed(fault)
            return CmdCtl.success(say(f"own.{state.value}.done", context.lang))

        return Command(
            name=state.value,
            handler=turn,
            permission=CommandPermission.CHAT_ADMIN,
            **command_texts(services.catalogue, state.value),
        )

    async def persona(
        context: CommandExecutionContext,
        text: Annotated[str, Arg(positional=True, greedy=True)] = "",
    ) -> CommandResponse:
        chat, text = ChatKey.parse(context.chat_key), text.strip()
        if not text:
            now = shortened(services.policies.of(chat).persona, _SHOWN)
            key = "own.persona.now" if now else "own.persona.none"
            return CmdCtl.message(say(key, context.lang, persona=now))
        back = folded(text) == _DEFAULT
        if fault := await put(context, "persona", None if back else text):
            return CmdCtl.failed(fault)
        if back and (fault := await put(context, "persona_name", None)):
            return CmdCtl.failed(fault)
        key = "own.persona.back" if back else "own.persona.done"
        return CmdCtl.success(say(key, context.lang))

    return (
        *map(switch, ChatState),
        Command(
            name="persona",
            handler=persona,
            # The model obeys the persona like an instruction of the operator. So being an
            # administrator of the chat is not enough for this command.
            permission=CommandPermission.ADVANCED,
            **command_texts(services.catalogue, "persona"),
        ),
        _participation_command(services, put),
        _permit_command(services, put),
    )


def _participation_command(services: CommandServices, put: WriteOverride) -> Command:
    say = services.catalogue.say

    async def participation(
        context: CommandExecutionContext,
        mode: Annotated[Modes | None, Arg(positional=True)] = None,
    ) -> CommandResponse:
        chat = without_thread(ChatKey.parse(context.chat_key))
        if mode is not None:
            value = None if mode == _DEFAULT else mode
            if fault := await put(context, "participation", value):
                return CmdCtl.failed(fault)
        now = services.policies.of(chat).trigger.participation.mode
        text = say(f"own.participation.{now.value}", context.lang)
        return CmdCtl.message(text) if mode is None else CmdCtl.success(text)

    return Command(
        name="participation",
        handler=participation,
        permission=CommandPermission.CHAT_ADMIN,
        **command_texts(services.catalogue, "participation"),
    )


def _permit_command(services: CommandServices, put: WriteOverride) -> Command:
    conduct, say = services.policies.conduct, services.catalogue.say

    async def permit(
        context: CommandExecutionContext,
        command: Annotated[str, Arg(positional=True)],
        who: Annotated[Wanted, Arg(positional=True)],
    ) -> CommandResponse:
        found = services.router.book.find(command.replace(" ", "."), context.adapter_key)
        if not found:
            return CmdCtl.failed(say("command.help.unknown", context.lang, name=command[:40]))
        chat, name = without_thread(ChatKey.parse(context.chat_key)), found[0].command.name
        table = conduct.book.chats.get(str(chat))
        rules: dict[str, str] = {
            known: rule
            for known, rule in (table.commands if table else {}).items()
            if folded(known) not in found[0].setting_names()
        }
        if who != _DEFAULT:
            rules[found[0].long_name if found[0].plugin else name] = who
        if fault := await put(context, "commands", rules or None):
            return CmdCtl.failed(fault)
        return CmdCtl.success(say("own.permit.done", context.lang, name=name, who=who))

    return Command(
        name="permit",
        handler=permit,
        permission=CommandPermission.SUPER_USER,
        **command_texts(services.catalogue, "permit"),
    )
