"""Defines ``/status``, which shows what the bot does in a chat."""

from collections.abc import Awaitable, Callable

import anyio

from nekro_core import __version__
from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.chat import ChatKey, DeliveryState
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.policy.permissions import CommandPermission
from nekro_core.policy.quotas import quota_of_chat

_WAITING = (DeliveryState.PENDING, DeliveryState.SENDING, DeliveryState.UNKNOWN)
_MOST_WAITING = 1000
_ENDS_S = 1.0
"""Seconds that ``/status`` waits for the end of a turn before it says that the bot works. A turn
still works for a moment after its answer, although people see the turn as ended."""


def status_command(
    services: CommandServices, wait_until_idle: Callable[[ChatKey], Awaitable[None]]
) -> Command:
    """Return the command. ``wait_until_idle`` returns when no turn of the chat runs."""
    say, began = services.catalogue.say, services.clock()

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

    return Command(
        name="status",
        handler=status,
        permission=CommandPermission.USER,
        **command_texts(services.catalogue, "status"),
    )
