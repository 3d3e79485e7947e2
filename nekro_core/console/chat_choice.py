"""Draws an input with which a person chooses a chat."""

from typing import Any

from nicegui import ui
from nicegui.events import GenericEventArguments

from nekro_core.console.view import View

_OFFERED = 30


async def choose_chat(view: View, label: str, value: str = "") -> ui.select:
    """Draw the input where it is called. It offers the chats with the newest messages, and those
    that fit what the person types. Its value is a chat key, or None.

    Args:
        view: The opened page.
        label: What the input is called.
        value: The chosen chat at first; empty for none.

    Returns:
        The input.
    """

    async def offered(text: str) -> dict[str, str]:
        found = await view.operator.chats.newest(view.actor, text=text[:200], limit=_OFFERED)
        return {
            str(each.chat_key): f"{each.name} · {each.chat_key}"
            if each.name
            else str(each.chat_key)
            for each in found.chats
        }

    options = await offered("")
    if value:
        options.setdefault(value, value)
    select = ui.select(options, label=label, value=value or None, with_input=True, clearable=True)
    select.props("outlined dense options-dense input-debounce=200").classes("nc-wide")

    async def search(event: GenericEventArguments) -> None:
        found: dict[Any, str] = await offered(str(event.args or ""))
        if select.value:
            found.setdefault(select.value, str(select.value))
        select.set_options(found, value=select.value)

    select.on("input-value", search, throttle=0.2, leading_events=False)
    return select
