"""Knows in which chats turns run, and stops turns. If the bot is one process, the turns run there;
those of a cluster run in its workers."""

from nekro_core.chat import ChatKey, Record
from nekro_core.operator.chat_parts import ChatControl
from nekro_core.operator.elsewhere import OtherProcesses
from nekro_core.policy import ChatState, without_thread
from nekro_core.policy.resolver import PolicyResolver


class LiveTurns:
    """Implements `ChatControl` and `TurnControl`.

    Args:
        here: The sessions of this process.
        policies: Says in which state a chat is.
    """

    def __init__(self, here: ChatControl, policies: PolicyResolver) -> None:
        self._here = here
        self._policies = policies
        self.others: OtherProcesses | None = None
        """The other processes. A gateway sets it."""

    def working(self, chat_key: ChatKey) -> bool:
        """See `ChatControl.working`."""
        if self.others is not None:
            return self.others.working(chat_key)
        return self._here.working(chat_key)

    async def stop(self, chat_key: ChatKey) -> bool:
        """See `ChatControl.stop`. Raises `ProcessAway`."""
        if self.others is not None:
            return await self.others.stop(chat_key)
        return await self._here.stop(chat_key)

    def on_stop(self, record: Record) -> None:
        """See `ChatControl.on_stop`. Only the owner of the chat calls it."""
        self._here.on_stop(record)

    async def reset(self, chat_key: ChatKey, before: int = 0) -> None:
        """See `ChatControl.reset`. Only the owner of the chat calls it."""
        await self._here.reset(chat_key, before)

    async def follow_state(self, chat_key: ChatKey, was: ChatState) -> None:
        """See `ChatControl.follow_state`. Raises `ProcessAway`."""
        await self._here.follow_state(chat_key, was)
        if self.others is None:
            return
        # The workers learn the new state by themselves and begin no further turn. Turns that run
        # are stopped here.
        for key in self.others.all_working():
            concerned = chat_key in (key, without_thread(key))
            if concerned and self._policies.conduct.state(key) is not ChatState.ON:
                await self.others.stop(key)
