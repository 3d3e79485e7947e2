"""Decides in which chats a component may be used: its ``chat_scope`` and ``allowed_session``."""

from nekro_core.chat import ChatKey, ChatKind
from nekro_core.compat.maibot.formats.messages import adapters_of
from nekro_core.compat.maibot.plugin.components import MaiBotComponent


def is_limited(component: MaiBotComponent) -> bool:
    """Return True if a component may be used only in some chats."""
    return _scope(component) != "all" or bool(component.words("allowed_session"))


def serves(component: MaiBotComponent, chat: ChatKey) -> bool:
    """Return True if a component may be used in a chat.

    ``chat_scope`` is ``group``, ``private`` or ``all``. An entry of ``allowed_session`` is the id
    of a stream, the platform's id of the chat, or both the platform and the id: ``qq:10001``,
    ``qq:10001:group``. No entries mean all chats.
    """
    private = chat.kind is ChatKind.PRIVATE
    if _scope(component) == ("group" if private else "private"):
        return False
    allowed = component.words("allowed_session")
    return not allowed or any(_is_meant(entry.strip(), chat) for entry in allowed)


def _scope(component: MaiBotComponent) -> str:
    value = component.metadata.get("chat_scope") or "all"
    scope = str(getattr(value, "value", value)).strip().lower()
    return scope if scope in ("group", "private") else "all"


def _is_meant(entry: str, chat: ChatKey) -> bool:
    if entry in (str(chat), chat.native_id):
        return True
    platform, _, rest = entry.partition(":")
    native, _, kind = rest.partition(":")
    private = chat.kind is ChatKind.PRIVATE
    return (
        chat.instance.partition(".")[0] in adapters_of(platform)
        and native == chat.native_id
        and kind in ("", "private" if private else "group")
    )
