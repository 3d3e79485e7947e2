"""What functions without a context work with: the bot and the call in which they are called."""

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.plugins.authoring.binding import effective_binding
from nekro_core.plugins.authoring.call import running_call
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services
from nekro_core.system.errors import NekroError
from nekro_core.tools.outcome import ToolFailure


class NoCurrentBot(NekroError, RuntimeError):
    """A function of the api was called where no plugin's code runs for a bot."""


def current_services() -> Services:
    """The bot's. Raises `NoCurrentBot`."""
    binding = effective_binding()
    if binding is None or binding.services is None:
        raise NoCurrentBot(
            "this works inside a running bot alone: in a plugin's tools, hooks, commands and tasks"
        )
    return binding.services


def current_call() -> AgentCtx | None:
    """The context of the tool that runs, if one does."""
    ctx = running_call()
    return ctx if isinstance(ctx, AgentCtx) else None


def allowed_chat(chat_key: ChatKey | str) -> ChatKey:
    """The chat of a key, where whoever calls may do something there: what a chat's model asks for
    concerns that chat, unless the operator has allowed the plugin more. Raises `ToolFailure`."""
    call = current_call()
    if call is not None:
        return call.allowed_chat(chat_key)
    try:
        return ChatKey.parse(chat_key) if isinstance(chat_key, str) else chat_key
    except ChatKeyError as error:
        raise ToolFailure(str(error)) from None
