"""Calls the bot's tools for programs that an operator allows to call them. In a cluster, the tools
are called at the worker that owns the chat, because the boxes are there."""

from collections.abc import Mapping
from typing import Any

from nekro_core.chat import ChatKey
from nekro_core.operator.contract import ToolService
from nekro_core.operator.elsewhere import OtherProcesses
from nekro_core.tools.offer import OfferedTool, ToolAnswer


class LiveTools:
    """Implements `ToolService`.

    Args:
        here: The tools of this process.
    """

    def __init__(self, here: ToolService) -> None:
        self.here = here
        """The tools of this process."""
        self.others: OtherProcesses | None = None
        """The other processes. A gateway sets it."""

    async def tools(self, chat_key: ChatKey | None) -> tuple[OfferedTool, ...]:
        """See `ToolService.tools`. All processes have the same plugins, so this process answers.

        Args:
            chat_key: The chat; None for the tools that need no chat.

        Returns:
            The tools.
        """
        return await self.here.tools(chat_key)

    async def call(
        self, chat_key: ChatKey | None, name: str, arguments: Mapping[str, Any]
    ) -> ToolAnswer:
        """See `ToolService.call`. Raises `ProcessAway`.

        Args:
            chat_key: The chat; None for a tool that needs no chat.
            name: The tool's name.
            arguments: The arguments by name.

        Returns:
            The answer of the tool.
        """
        if self.others is None:
            return await self.here.call(chat_key, name, arguments)
        return await self.others.call_tool(chat_key, name, arguments)
