"""``DBUser``: a row for each person."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self

from nekro_core.compat.nekro_agent.host import NekroAgentHost, current_host
from nekro_core.compat.nekro_agent.rows.conditions import (
    ColumnCondition,
    second_column,
    text_column,
)
from nekro_core.compat.nekro_agent.rows.errors import NotKept
from nekro_core.compat.nekro_agent.rows.numbers import row_number
from nekro_core.compat.nekro_agent.rows.query import NEW_DICT, Row
from nekro_core.compat.nekro_agent.rows.source import RowSource, TableSource
from nekro_core.policy.permissions import CommandPermission, permission_of

_IN_FILE = ("ban_until", "prevent_trigger_until", "ext_data")
"""Fields that have no column in the database. They are stored in `NekroAgentHost.extra_users`."""
OPERATOR_ID = 1
"""The id of the operator. Plugins write ``DBUser.filter(id__not=1)`` to get only the people in
chats."""
_COLUMNS: Mapping[str, ColumnCondition] = {
    "platform_userid": text_column("user_id"),
    "bind_qq": text_column("user_id"),
    "username": text_column("name"),
    "create_time": second_column("first_seen"),
}
_LEVELS = {
    CommandPermission.PUBLIC: 0,
    CommandPermission.USER: 1,
    CommandPermission.CHAT_ADMIN: 1,
    CommandPermission.ADVANCED: 2,
    CommandPermission.SUPER_USER: 3,
}


class DBUser(Row):
    """A person. Someone who writes to two accounts of the bot has a row for each account. A banned
    person gets no answer.

    ``perm_level`` is 1 for users, 2 for advanced users and 3 for super users. It comes from the
    operator's settings, and a plugin cannot raise it. ``id`` is made from the account and the
    person's id on the platform (`row_number`). The row with the id 1 is the operator, who uses the
    bot's web page and has no id on a platform.
    """

    id: int = 0
    username: str = ""
    adapter_key: str = ""
    platform_userid: str = ""
    bind_qq: str = ""
    unique_id: str = ""
    perm_level: int = 1
    perm_role: str = "user"
    is_active: bool = True
    ban_until: datetime | None = None
    prevent_trigger_until: datetime | None = None
    ext_data: dict[str, Any] = NEW_DICT
    login_time: datetime | None = None
    create_time: datetime | None = None
    update_time: datetime | None = None
    instance: str = ""

    @classmethod
    async def source(cls) -> RowSource:
        """See `Row.source`."""
        host = current_host()
        return TableSource(
            queries=host.store.queries,
            table="users",
            read=lambda row: (host, row),
            columns=_COLUMNS,
            orders={"create_time": "first_seen", "username": "name"},
        )

    @classmethod
    def fixed_rows(cls) -> Sequence[Self]:
        """See `Row.fixed_rows`."""
        return (cls.operator(),)

    @classmethod
    def operator(cls) -> Self:
        """The person who is logged in at the bot's web page."""
        level = CommandPermission.SUPER_USER
        return cls(
            id=OPERATOR_ID,
            username="admin",
            unique_id="admin",
            perm_level=_LEVELS[level],
            perm_role=level.value,
        )

    @classmethod
    def of(cls, row: Any) -> Self:
        """See `Row.of`."""
        host, columns = row
        return cls.made(
            host,
            columns["instance"],
            columns["user_id"],
            columns["name"],
            first_seen=columns["first_seen"],
        )

    @classmethod
    def made(
        cls,
        host: NekroAgentHost,
        instance: str,
        user_id: str,
        name: str,
        *,
        first_seen: float = 0.0,
    ) -> Self:
        """Make the row of a person. The person may not have written yet."""
        adapter = host.reach.adapter_of(instance)
        extra = host.extra_users.get(f"{instance}:{user_id}")
        level = permission_of(host.command, adapter=adapter, instance=instance, user_id=user_id)
        return cls(
            id=row_number(f"{instance}:{user_id}"),
            username=name,
            adapter_key=adapter,
            platform_userid=user_id,
            bind_qq=user_id,
            unique_id=f"{adapter}:{user_id}",
            perm_level=_LEVELS[level],
            perm_role=level.value,
            ban_until=_time(extra.get("ban_until")),
            prevent_trigger_until=_time(extra.get("prevent_trigger_until")),
            ext_data=extra.get("ext_data") or {},
            create_time=datetime.fromtimestamp(first_seen).astimezone() if first_seen else None,
            instance=instance,
        )

    @classmethod
    async def get_by_union_id(cls, adapter_key: str, platform_userid: str) -> Self | None:
        """Get the person with this id on a platform, or None."""
        row: Self | None = await cls.get_or_none(
            adapter_key=adapter_key, platform_userid=platform_userid
        )
        return row

    @property
    def is_banned(self) -> bool:
        """True if the person is banned now."""
        return _is_future(self.ban_until)

    @property
    def is_prevent_trigger(self) -> bool:
        """True if the person's messages do not wake the bot now."""
        return self.is_banned or _is_future(self.prevent_trigger_until)

    async def save(self, *_: Any, **__: Any) -> None:
        """Store the fields that plugins may change: the name, and the fields without a column.
        Raises `NotKept` for the operator."""
        if self.id == OPERATOR_ID:
            raise NotKept("DBUser 1 is the operator, whom a plugin cannot change")
        host = current_host()
        instance = self.instance or self.adapter_key
        facts = {name: getattr(self, name) for name in _IN_FILE}
        for name in ("ban_until", "prevent_trigger_until"):
            facts[name] = facts[name].isoformat() if facts[name] else None
        host.extra_users.put(f"{instance}:{self.platform_userid}", facts)
        if self.username:
            await host.store.queries.set_name(instance, self.platform_userid, self.username)


def _is_future(until: datetime | None) -> bool:
    if until is None:
        return False
    return until.astimezone(UTC) > datetime.now(UTC)


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
