"""``DBPreset``: a row for each persona that a plugin has made for the bot."""

from datetime import datetime
from typing import Any, Self

from nekro_core.compat.nekro_agent.host import NekroAgentHost, current_host
from nekro_core.compat.nekro_agent.rows.query import NEW_DICT, Row
from nekro_core.compat.nekro_agent.rows.source import ListSource, RowSource
from nekro_core.tools.outcome import InvalidValue

OWN_ID = -1
"""The id of the bot's own preset, which has the bot's name and persona from the settings."""


class DBPreset(Row):
    """A preset. The bot's own preset has the id -1; it comes from the settings and cannot be
    changed."""

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
    create_time: Any = None
    update_time: Any = None

    @classmethod
    async def source(cls) -> RowSource:
        """See `Row.source`."""
        presets = current_host().presets.all()
        return ListSource(sorted(presets.values(), key=lambda facts: int(facts.get("id", 0))))

    @classmethod
    def of(cls, row: Any) -> Self:
        """See `Row.of`."""
        return cls(**{name: value for name, value in row.items() if name in cls.FIELDS})

    @classmethod
    def own(cls, host: NekroAgentHost) -> Self:
        """The bot's own preset."""
        name = host.agent.names[0]
        return cls(id=OWN_ID, name=name, title=name, content=host.agent.persona)

    async def save(self, *_: Any, **__: Any) -> None:
        """Store the preset. Raises `InvalidValue` for the bot's own preset."""
        presets = current_host().presets
        if self.id == OWN_ID:
            raise InvalidValue("the bot's own preset comes from the settings: NEKRO_AGENT__PERSONA")
        now = datetime.now().astimezone().isoformat()
        self.id = self.id or 1 + max(map(int, presets.all()), default=0)
        self.create_time, self.update_time = self.create_time or now, now
        presets.put(str(self.id), {name: getattr(self, name) for name in self.FIELDS})

    async def delete(self, *_: Any, **__: Any) -> None:
        """Delete the preset. Chats that use it get the bot's own preset."""
        current_host().presets.drop(str(self.id))
