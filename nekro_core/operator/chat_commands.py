"""Carries out the changes of chat commands as actions of operators, so that the audit log has
them."""

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from nekro_core.agent.commands.actions import ChangeRefused
from nekro_core.agent.erasure.erasure import ErasureReport
from nekro_core.chat import ChatKey, Record
from nekro_core.operator.audit import Done
from nekro_core.operator.errors import OperatorError
from nekro_core.operator.late_operator import LateOperator
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.plugins.authoring.commands import CommandExecutionContext
from nekro_core.policy import InvalidOverride

Result = TypeVar("Result")


class ChatCommandActions:
    """The `CommandActions` of a bot with operators.

    The command router has already checked that the person may use the command; an operator sets for
    each chat who may use a command. So the actor always gets the role that the action needs.
    """

    def __init__(self, operator: LateOperator) -> None:
        self._operator = operator

    async def set_policy(
        self, context: CommandExecutionContext, chat: ChatKey, field: str, value: object | None
    ) -> None:
        """See `CommandActions`."""
        given = {"chat_key": chat, "field": field, "value": value}
        chats = (await self._operator.get()).chats
        await _told(chats.set_policy.invoke(_actor(context), given))

    async def set_person_quota(
        self,
        context: CommandExecutionContext,
        place: str,
        user_id: str,
        quota: Mapping[str, Any] | None,
    ) -> None:
        """See `CommandActions`."""
        given = {"place": place, "user_id": user_id, "quota": quota}
        chats = (await self._operator.get()).chats
        await _told(chats.set_person_quota.invoke(_actor(context), given))

    async def stop(self, context: CommandExecutionContext, record: Record) -> None:
        """See `CommandActions`."""
        given = {"chat_key": record.chat_key, "message": record.seq}
        chats = (await self._operator.get()).chats
        await _told(chats.stop.invoke(_actor(context), given))

    async def reset(self, context: CommandExecutionContext, chat: ChatKey, before: int) -> None:
        """See `CommandActions`."""
        given = {"chat_key": chat, "before": before}
        chats = (await self._operator.get()).chats
        await _told(chats.reset.invoke(_actor(context), given))

    async def erase(
        self, context: CommandExecutionContext, chat: ChatKey, user_id: str
    ) -> ErasureReport:
        """See `CommandActions`."""
        given = {"chat_key": chat, "user_id": user_id}
        erasure = (await self._operator.get()).erasure
        return (await _told(erasure.erase_person.invoke(_actor(context), given))).result


def _actor(context: CommandExecutionContext) -> Actor:
    return Actor(
        name=f"{context.adapter_key}:{context.user_id}",
        role=AccessRole.OPERATOR,
        origin=RequestOrigin.CHAT,
    )


async def _told(action: Awaitable[Done[Result]]) -> Done[Result]:
    """Carry an action out. If it is refused, raise `ChangeRefused`, so that the person in the chat
    reads the reason."""
    try:
        return await action
    except (OperatorError, InvalidOverride) as error:
        raise ChangeRefused(str(error)) from error
