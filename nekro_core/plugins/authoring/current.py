"""Finds the running bot and call for those functions of `nekro_core.api` that get no context."""

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.plugins.authoring.binding import effective_binding
from nekro_core.plugins.authoring.call import running_call
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services
from nekro_core.system.errors import NekroError
from nekro_core.tools.outcome import ToolFailure


class NoCurrentBot(NekroError, RuntimeError):
    """A function of `nekro_core.api` was called by code that no bot has called."""


def current_services() -> Services:
    """Get the services of the bot whose plugin's code runs now. Raises `NoCurrentBot`."""
    binding = effective_binding()
    if binding is None or binding.services is None:
        raise NoCurrentBot(
            "this works only inside a running bot: in a plugin's tools, hooks, commands and tasks"
        )
    return binding.services


def current_call() -> AgentCtx | None:
    """Get the context of the tool that runs now; None if no tool runs."""
    ctx = running_call()
    return ctx if isinstance(ctx, AgentCtx) else None


def allowed_chat(chat_key: ChatKey | str) -> ChatKey:
    """Check that the caller may act in a chat, and return the chat's key. A tool that the model
    called may act in the chat of the call, and in other chats if the operator allows the plugin to.
    Raises `ToolFailure`."""
    call = current_call()
    if call is not None:
        return call.allowed_chat(chat_key)
    try:
        return ChatKey.parse(chat_key) if isinstance(chat_key, str) else chat_key
    except ChatKeyError as error:
        raise ToolFailure(str(error)) from None
