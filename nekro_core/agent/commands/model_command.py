"""Defines ``/model``, which shows and sets the model or the chain of models of a chat."""

from typing import Annotated

from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.chat import ChatKey
from nekro_core.llm.breaker import BreakerState
from nekro_core.llm.chain import ChainLink
from nekro_core.llm.current import chain_links
from nekro_core.llm.role_settings import DEFAULT, chain_names
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.plugins.commands.arguments import Arg
from nekro_core.policy import without_thread
from nekro_core.policy.permissions import CommandPermission, folded

_SHOWN = 100
"""Maximum number of characters of an unknown name that the answer repeats."""


def model_command(services: CommandServices) -> Command:
    """Return the command. Everybody may see the model; only operators may set it, because models
    cost different amounts."""
    say, policies = services.catalogue.say, services.policies

    def show(context: CommandExecutionContext, chat: ChatKey) -> str:
        model = policies.of(chat).model
        lines = [say("own.model.now", context.lang, model=model.profile.name)]
        links = chain_links(model)
        if len(links) > 1:
            lines += [_line(services, context, link) for link in links]
        if _may_set(context):
            lines.append(say("own.model.how", context.lang))
        return "\n".join(lines)

    async def set_model(
        context: CommandExecutionContext,
        wanted: Annotated[str, Arg(positional=True, greedy=True)] = "",
    ) -> CommandResponse:
        chat, lang, text = ChatKey.parse(context.chat_key), context.lang, wanted.strip()
        if not text:
            return CmdCtl.message(show(context, chat))
        if not _may_set(context):
            return CmdCtl.failed(say("own.model.not_allowed", lang))
        back = folded(text) == DEFAULT
        try:
            names = () if back else chain_names(text.lower())
        except ValueError:
            return CmdCtl.failed(say("own.model.unknown", lang, name=text[:_SHOWN]))
        unknown = next((name for name in names if policies.model_named(name) is None), None)
        if unknown is not None:
            return CmdCtl.failed(say("own.model.unknown", lang, name=unknown))
        value = None if back else ",".join(names)
        change = services.actions.now.set_policy(context, without_thread(chat), "model", value)
        if fault := await services.tried(context, change):
            return CmdCtl.failed(fault)
        model = policies.of(chat).model.profile.name
        return CmdCtl.success(say("own.model.done", lang, model=model))

    return Command(
        name="model",
        handler=set_model,
        permission=CommandPermission.USER,
        **command_texts(services.catalogue, "model"),
    )


def _may_set(context: CommandExecutionContext) -> bool:
    return context.is_super_user or context.is_advanced_user


def _line(services: CommandServices, context: CommandExecutionContext, link: ChainLink) -> str:
    """Return the line of the answer about one model of a chain."""
    say, breaker = services.catalogue.say, link.breaker
    name, model = link.name, link.model.profile.name
    if breaker.state is BreakerState.OPEN and breaker.reason is not None:
        reason = say(f"model.why.{breaker.reason}", context.lang)
        seconds = f"{breaker.remaining_s:.0f}"
        return say(
            "own.model.rests", context.lang, name=name, model=model, reason=reason, seconds=seconds
        )
    return say("own.model.one", context.lang, name=name, model=model)
