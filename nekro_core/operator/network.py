"""Shows what the code of chats may reach on the network, and changes it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.elsewhere import ProcessChoice
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

    async def chat_of(self, parameters: Mapping[str, Any]) -> ChatKey | None:
        """See `Area.chat_of`.

        Args:
            parameters: The validated parameters of the operation.

        Returns:
            The chat that owns the box; None if the box belongs to no chat.
        """
        try:
            return ChatKey.parse(parameters["owner"])
        except ChatKeyError:
            return None

    @query(role=AccessRole.VIEWER)
    async def rules(self, actor: Actor) -> EgressShown:  # noqa: ARG002
        """Show the rules in force: those of the settings, and those of single chats and boxes."""
        return await self._egress.shown()

    @query(role=AccessRole.VIEWER, process=ProcessChoice.ANY)
    async def refused(
        self,
        actor: Actor,
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
        found = [*self._egress.refusals.newest(owner, limit)]
        if self.others is not None:
            given = {"owner": owner, "limit": limit}
            for refusals in await self.others.at_workers(self.refused, actor, given):
                found += refusals
            found.sort(key=lambda each: -each.last_at)
        return found[:limit]

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
        # Not the rules of the chat's boxes: they were there before, or somebody wrote them since.
        undo = UndoCall(
            action="network.remove", parameters={"owner": owner, "box": box, "boxes": False}
        )
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
        boxes: bool = True,
        revision: str | None = None,
    ) -> Change[None]:
        """Remove the rules of a chat and of all its boxes, or the rules of one box. From then on,
        less specific rules apply.

        Args:
            owner: The key of the chat.
            box: One box of the chat; empty for all.
            boxes: Whether the rules of the chat's boxes are removed too, if no box is named.
            revision: The revision that the person has seen.
        """
        old = await self._tables(owner, box, boxes=boxes)
        try:
            await self._egress.remove(owner, box, boxes=boxes, revision=revision)
        except EgressRulesChanged as error:
            raise ChangedMeanwhile(str(error)) from None
        return Change(
            result=None,
            subject=_subject(owner, box),
            old=[{"box": each.box, **_lists(each)} for each in old],
            undo=_put_again(old[0]) if len(old) == 1 else None,
        )

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def forget_refused(self, actor: Actor, *, owner: Owner) -> Change[None]:  # noqa: ARG002
        """Empty the list of what a chat's code was not allowed to reach.

        Args:
            owner: The key of the chat.
        """
        self._egress.refusals.forget(owner)
        return Change(result=None, subject=owner)

    async def _tables(self, owner: str, box: str, *, boxes: bool = True) -> Sequence[EgressTable]:
        """Return the rules of an owner, with those of all its boxes if ``boxes`` is True; or the
        rules of one box."""
        tables = [each for each in (await self._egress.shown()).tables if each.owner == owner]
        return [each for each in tables if each.box == box or (boxes and not box)]


def _subject(owner: str, box: str) -> str:
    return f"{owner} {box}".strip()


def _lists(table: EgressTable) -> dict[str, list[str]]:
    return {"allow": [*table.allow], "private": [*table.private]}


def _put_again(table: EgressTable) -> UndoCall:
    return UndoCall(
        action="network.put",
        parameters={"owner": table.owner, "box": table.box, **_lists(table)},
    )
