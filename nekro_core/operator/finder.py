"""Finds chats, turns, plugins and settings by what a person types."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from nekro_core.chat import ChatKey
from nekro_core.operator.actions import Area, query
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.plugins.host.listing import PluginInfo
from nekro_core.store import ChatSummary, Store

HitKind = Literal["chat", "turn", "plugin", "setting"]
_MOST_OF_A_KIND = 8
_MOST_TURN = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSetting:
    """A setting that can be found. ``name`` is its name in the settings file, and ``title`` says
    what the setting does."""

    name: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something that was found.

    Attributes:
        kind: What it is.
        key: The chat's key, the turn's number, the place of the plugin or the setting's name.
        title: What people call it.
        more: A text that distinguishes it from others with the same title; may be empty.
    """

    kind: HitKind
    key: str
    title: str
    more: str = ""


class Finder(Area):
    """Finds things of all kinds.

    Args:
        audit: The audit log.
        store: The store.
        plugins: Lists the plugins.
        settings: All settings.
    """

    name = "finder"

    def __init__(
        self,
        audit: AuditLog,
        *,
        store: Store,
        plugins: Callable[[], Iterable[PluginInfo]],
        settings: Iterable[NamedSetting],
    ) -> None:
        super().__init__(audit)
        self._store = store
        self._plugins = plugins
        self._settings = tuple(settings)

    @query(role=AccessRole.VIEWER)
    async def find(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        text: Annotated[str, Field(min_length=1, max_length=200)],
        limit: Annotated[int, Field(ge=1, le=_MOST_OF_A_KIND)] = 5,
    ) -> list[Hit]:
        """Find chats, turns, plugins and settings.

        Args:
            text: A part of a name or a key, or the number of a turn.
            limit: The largest number of hits of each kind.
        """
        words = text.casefold().strip()
        if not words:
            return []
        page = await self._store.chat_list.page(text=text.strip(), limit=limit)
        turns = await self._turns(words)
        return [*turns, *map(_chat, page.chats), *self._other(words, limit)]

    async def _turns(self, words: str) -> list[Hit]:
        number = words.removeprefix("#")
        if not (number.isascii() and number.isdecimal() and len(number) < 20):
            return []
        turn_id = int(number)
        turn = await self._store.turns.get(turn_id) if 0 < turn_id <= _MOST_TURN else None
        if turn is None:
            return []
        title = self._store.chats.name(turn.chat_key) or str(turn.chat_key)
        return [Hit(kind="turn", key=str(turn_id), title=title, more=f"#{turn_id}")]

    def _other(self, words: str, limit: int) -> list[Hit]:
        plugins = [
            Hit(kind="plugin", key=each.item, title=each.name or each.item, more=each.item)
            for each in self._plugins()
            if words in f"{each.item}\n{each.key}\n{each.name}".casefold()
        ]
        settings = [
            Hit(kind="setting", key=each.name, title=each.name, more=each.title)
            for each in self._settings
            if words in f"{each.name}\n{each.title}".casefold()
        ]
        return [*plugins[:limit], *settings[:limit]]


def _chat(chat: ChatSummary) -> Hit:
    key: ChatKey = chat.chat_key
    return Hit(kind="chat", key=str(key), title=chat.name or str(key), more=str(key))
