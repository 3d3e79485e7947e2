"""Draws which tools the agent of a chat has, with a switch for each tool and each plugin."""

from itertools import groupby
from typing import Any

from nicegui import ui
from nicegui.events import ValueChangeEventArguments

from nekro_core.chat import ChatKey
from nekro_core.console.view import View
from nekro_core.console.widgets import badge, empty
from nekro_core.operator.chat_policy import ToolSwitchView
from nekro_core.operator.roles import AccessRole

_ALL = "*"


async def draw_tools(view: View, chat_key: ChatKey) -> None:
    """Draw the switches."""
    switches = _ToolSwitches(view, chat_key)
    ui.label(view.say("chats.tools_lead")).classes("nc-soft nc-small")
    await switches.draw()
    ui.button(view.say("chats.read_again"), on_click=switches.draw.refresh).props(
        "flat dense no-caps"
    )


class _ToolSwitches:
    def __init__(self, view: View, chat_key: ChatKey) -> None:
        self._view, self._chat_key = view, chat_key
        self._opened: set[str] = set()

    @ui.refreshable_method
    async def draw(self) -> None:
        """Draw all plugins. Plugins whose lists were open stay open."""
        area, view = self._view.operator.chats, self._view
        tools = await area.tools(view.actor, chat_key=self._chat_key)
        policy = await area.policy(view.actor, chat_key=self._chat_key)
        if not tools:
            empty(view, "chats.no_tools")
            return
        self._revision = policy.tools_revision
        with ui.element("div").classes("nc-row"):
            on = sum(each.on for each in tools)
            count = view.say("chats.tools_on", on=on, count=len(tools))
            ui.label(count).classes("nc-grow nc-small").props('role="status"')
            if view.may(AccessRole.OPERATOR):
                for key, value in (("chats.all_on", True), ("chats.all_off", False)):
                    ui.button(
                        view.say(key), on_click=lambda value=value: self._switch(_ALL, on=value)
                    ).props("flat dense no-caps")
        with ui.element("div").classes("nc-list"):
            for plugin, found in groupby(tools, key=lambda each: each.plugin):
                self._draw_plugin(plugin, [*found])

    def _draw_plugin(self, plugin: str, tools: list[ToolSwitchView]) -> None:
        view, on = self._view, sum(each.on for each in tools)
        with ui.element("article").classes("nc-card"):
            with ui.element("div").classes("nc-row"):
                self._draw_switch(plugin, plugin, on=on == len(tools))
                badge(f"{on}/{len(tools)}", "good" if on else "warn")
            one_by_one = view.say("chats.tools_of", plugin=plugin)
            part = ui.expansion(view.say("chats.one_by_one"), value=plugin in self._opened)
            part.props["toggle-aria-label"] = one_by_one
            part.classes("nc-wide nc-small nc-chat-plugin")

            def fill(opened: bool) -> None:
                (self._opened.add if opened else self._opened.discard)(plugin)
                # A chat may have hundreds of tools. So the tools of a plugin are drawn only when
                # the person opens the plugin.
                if opened and not part.default_slot.children:
                    with part:
                        for each in tools:
                            self._draw_tool(each)

            part.on_value_change(lambda event: fill(bool(event.value)))
            fill(part.value)

    def _draw_tool(self, tool: ToolSwitchView) -> None:
        with ui.element("div").classes("nc-chat-tool"):
            self._draw_switch(tool.function, tool.name, on=tool.on)
            if tool.about:
                ui.label(tool.about).classes("nc-soft nc-small nc-text")

    def _draw_switch(self, shown: str, name: str, *, on: bool) -> None:
        switch = ui.switch(shown, value=on).classes("nc-grow nc-chat-switch")
        if not self._view.may(AccessRole.OPERATOR):
            switch.props("disable")
            return

        async def change(event: ValueChangeEventArguments[Any]) -> None:
            await self._switch(name, on=bool(event.value))

        switch.on_value_change(change)

    async def _switch(self, name: str, *, on: bool) -> None:
        view = self._view
        given = {
            "chat_key": str(self._chat_key),
            "name": name,
            "on": on,
            "revision": self._revision,
        }
        changed = await view.perform(
            view.operator.chats.switch_tool.invoke(view.actor, given),
            view.say("chats.policy_set"),
            refresh=self.draw.refresh,
        )
        if changed is None:
            await self.draw.refresh()  # put the switch back to the state in force
