"""Makes the changes of chat commands as actions of operators."""

from nekro_core.chat import ChatKey
from nekro_core.operator.chats import Chats
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.plugins.authoring.commands import CommandExecutionContext


class ChatCommandActions:
    """Writes the overrides that commands such as ``/off`` and ``/persona`` change.

    The command router has checked before whether the person may use the command. An operator can
    set for each chat who may. So the actor always gets the role that the action needs.
    """

    def __init__(self, chats: Chats) -> None:
        self._chats = chats

    async def set_policy(
        self, context: CommandExecutionContext, chat: ChatKey, field: str, value: object | None
    ) -> None:
        """Change a field of a chat's overrides. Raises `OperatorError`, `InvalidOverride` and
        `OSError`."""
        actor = Actor(
            name=f"{context.adapter_key}:{context.user_id}",
            role=AccessRole.OPERATOR,
            origin=RequestOrigin.CHAT,
        )
        given = {"chat_key": chat, "field": field, "value": value}
        await self._chats.set_policy.invoke(actor, given)
