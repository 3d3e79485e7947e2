"""Shows what the code of chats may reach on the network, and changes it."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import ChangedMeanwhile
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.sandbox.egress.admin import (
    EgressAdmin,
    EgressRulesChanged,
    EgressShown,
    EgressTable,
)
from nekro_core.sandbox.egress.refusals import EgressRefusal

Owner = Annotated[str, Field(min_length=1, max_length=500)]
BoxName = Annotated[str, Field(max_length=100)]
Rules = Annotated[list[str], Field(max_length=500)]


class Network(Area):
    """The network rules of boxes.

    Args:
        audit: The audit log.
        egress: Shows and changes the rules.
    """

    name = "network"

    def __init__(self, audit: AuditLog, egress: EgressAdmin) -> None:
        super().__init__(audit)
        self._egress = egress

    @query(role=AccessRole.VIEWER)
    async def rules(self, actor: Actor) -> EgressShown:  # noqa: ARG002
        """Show the rules in force: those of the settings, and those of single chats and boxes."""
        return await self._egress.shown()

    @query(role=AccessRole.VIEWER)
    async def refused(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        owner: str | None = None,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> list[EgressRefusal]:
        """List the destinations that code was not allowed to reach since the start of the bot,
        newest first.

        Args:
            owner: The key of a chat; none for all.
            limit: The largest number of destinations.
        """
        return self._egress.refusals.newest(owner, limit)

    @action(role=AccessRole.OPERATOR)
    async def put(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        owner: Owner,
        box: BoxName = "",
        allow: Rules | None = None,
        private: Rules | None = None,
        revision: str | None = None,
    ) -> Change[None]:
        """Set what the boxes of a chat may reach, in place of the rules of the settings.
        Connections that are no longer allowed end.

        Args:
            owner: The key of the chat.
            box: One box of the chat; empty for all.
            allow: What may be reached, for example ``example.org``, ``*.example.org`` or
                ``example.org:8443``. With an empty list, there is no network.
            private: What may be reached even if its address is not public.
            revision: The revision that the person has seen.
        """
        old = await self._tables(owner, box)
        table = EgressTable(
            owner=owner, box=box, allow=tuple(allow or ()), private=tuple(private or ())
        )
        try:
            await self._egress.put(table, revision=revision)
        except EgressRulesChanged as error:
            raise ChangedMeanwhile(str(error)) from None
        mine = next((each for each in old if each.box == box), None)
        undo = UndoCall(action="network.remove", parameters={"owner": owner, "box": box})
        return Change(
            result=None,
            subject=_subject(owner, box),
            old=_lists(mine) if mine else None,
            new=_lists(table),
            undo=_put_again(mine) if mine else undo,
        )

    @action(role=AccessRole.OPERATOR)
    async def remove(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        owner: Owner,
        box: BoxName = "",
        revision: str | None = None,
    ) -> Change[None]:
        """Remove the rules of a chat and of all its boxes, or the rules of one box. From then on,
        less specific rules apply.

        Args:
            owner: The key of the chat.
            box: One box of the chat; empty for all.
            revision: The revision that the person has seen.
        """
        old = await self._tables(owner, box)
        try:
            await self._egress.remove(owner, box, revision=revision)
        except EgressRulesChanged as error:
            raise ChangedMeanwhile(str(error)) from None
        return Change(
            result=None,
            subject=_subject(owner, box),
            old=[{"box": each.box, **_lists(each)} for each in old],
            undo=_put_again(old[0]) if len(old) == 1 else None,
        )

    @action(role=AccessRole.OPERATOR)
    async def forget_refused(self, actor: Actor, *, owner: Owner) -> Change[None]:  # noqa: ARG002
        """Empty the list of what a chat's code was not allowed to reach.

        Args:
            owner: The key of the chat.
        """
        self._egress.refusals.forget(owner)
        return Change(result=None, subject=owner)

    async def _tables(self, owner: str, box: str) -> Sequence[EgressTable]:
        """Return the rules of an owner, or of one of its boxes."""
        tables = (await self._egress.shown()).tables
        return [each for each in tables if each.owner == owner and (not box or each.box == box)]


def _subject(owner: str, box: str) -> str:
    return f"{owner} {box}".strip()


def _lists(table: EgressTable) -> dict[str, list[str]]:
    return {"allow": [*table.allow], "private": [*table.private]}


def _put_again(table: EgressTable) -> UndoCall:
    return UndoCall(
        action="network.put",
        parameters={"owner": table.owner, "box": table.box, **_lists(table)},
    )
