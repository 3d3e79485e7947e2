"""``DBPreset``: a row for each persona that a plugin has made for the bot."""

from datetime import datetime
from typing import Any, Self

from nekro_core.compat.nekro_agent.host import NekroAgentHost, current_host
from nekro_core.compat.nekro_agent.rows.query import NEW_DICT, Row
from nekro_core.compat.nekro_agent.rows.source import ListSource, RowSource
from nekro_core.tools.outcome import InvalidValue

OWN_ID = -1
"""The id of the bot's own preset."""
_TIMES = ("create_time", "update_time")
"""Fields with times, which the JSON file has as texts."""


class DBPreset(Row):
    """A preset that a plugin has made. The bot's own preset is a `DefaultPreset`."""

    id: int = 0
    name: str = ""
    title: str = ""
    avatar: str = ""
    content: str = ""
    description: str = ""
    tags: str = ""
    author: str = ""
    ext_data: dict[str, Any] = NEW_DICT
    on_shared: bool = False
    remote_id: int | None = None
    create_time: datetime | None = None
    update_time: datetime | None = None

    @classmethod
    async def source(cls) -> RowSource:
        """See `Row.source`."""
        presets = current_host().presets.all()
        return ListSource(sorted(presets.values(), key=lambda facts: int(facts.get("id", 0))))

    @classmethod
    def of(cls, row: Any) -> Self:
        """See `Row.of`."""
        fields = {name: value for name, value in row.items() if name in cls.FIELDS}
        for name in _TIMES:
            fields[name] = datetime.fromisoformat(row[name]) if row.get(name) else None
        return cls(**fields)

    async def save(self, *_: Any, **__: Any) -> None:
        """Store the preset."""
        presets = current_host().presets
        now = datetime.now().astimezone()
        self.id = self.id or 1 + max(map(int, presets.all()), default=0)
        self.create_time, self.update_time = self.create_time or now, now
        facts = {name: getattr(self, name) for name in self.FIELDS}
        presets.put(str(self.id), facts | {name: facts[name].isoformat() for name in _TIMES})

    async def delete(self, *_: Any, **__: Any) -> None:
        """Delete the preset. Chats that use it get the bot's own preset."""
        current_host().presets.drop(str(self.id))


class DefaultPreset(DBPreset):
    """The bot's own preset, with the bot's name and persona. It has the id -1. It comes from the
    settings, so a plugin cannot change it."""

    @classmethod
    def from_settings(cls, host: NekroAgentHost) -> Self:
        """Make the preset from the bot's settings."""
        name = host.agent.names[0]
        return cls(id=OWN_ID, name=name, title=name, content=host.agent.persona)

    async def save(self, *_: Any, **__: Any) -> None:
        """Raise `InvalidValue`."""
        raise InvalidValue("the bot's own preset comes from the settings: NEKRO_AGENT__PERSONA")

    async def delete(self, *_: Any, **__: Any) -> None:
        """Raise `InvalidValue`."""
        await self.save()
