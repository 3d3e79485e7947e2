"""Shows the bot's settings, changes them and restarts the bot."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import Field, JsonValue, Secret

from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import ChangedMeanwhile, NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.system.documents import DocumentConflict
from nekro_core.system.setting_info import SettingChange, SettingInfo

SettingName = Annotated[str, Field(min_length=1, max_length=200)]


class SettingsBook(Protocol):
    """Reads and writes the settings of the running bot
    (`nekro_core.app.operator_settings.RunningSettingsBook`). Its methods raise `NekroError` and
    subclasses."""

    @property
    def problem(self) -> str:
        """What is wrong with the settings files now; empty if they are valid."""

    async def infos(self) -> Sequence[SettingInfo]:
        """Return all settings."""

    async def set(self, values: Mapping[str, Any]) -> Sequence[SettingChange]:
        """Change settings, and apply them. None removes a setting from the file."""

    async def move_from_env(self, names: Sequence[str]) -> Sequence[SettingChange]:
        """Move settings from ``.env`` into the files; all of ``.env`` if ``names`` is empty."""

    def restart(self) -> None:
        """Begin a restart of the bot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsState:
    """The state of the settings' files.

    Attributes:
        problem: What is wrong with the files, with file, line and setting; empty if they are valid.
            While they are not valid, the last valid settings are in force.
        waiting: The names of changed settings that need a restart.
        in_dotenv: The names of settings that a ``.env`` file sets. They cannot be changed before
            they are moved into the settings file.
    """

    problem: str
    waiting: tuple[str, ...]
    in_dotenv: tuple[str, ...]


class SettingsArea(Area):
    """The settings.

    Args:
        audit: The audit log.
        book: Reads and writes the settings.
    """

    name = "settings"

    def __init__(self, audit: AuditLog, book: SettingsBook) -> None:
        super().__init__(audit)
        self._book = book

    @query(role=AccessRole.VIEWER)
    async def listed(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        table: str = "",
        text: str = "",
    ) -> list[SettingInfo]:
        """List settings, with their values, types, defaults and sources. Values of secrets are
        never shown.

        Args:
            table: Only settings of this table and its inner tables, for example ``agent``.
            text: Only settings whose name, environment variable or description contains this text.
        """
        wanted = text.casefold()
        return [
            each
            for each in await self._book.infos()
            if (not table or each.name.startswith(f"{table}."))
            and wanted in f"{each.name}\n{each.variable}\n{each.description}".casefold()
        ]

    @query(role=AccessRole.VIEWER)
    async def one(self, actor: Actor, *, setting: SettingName) -> SettingInfo:  # noqa: ARG002
        """Get one setting.

        Args:
            setting: Its name, for example ``agent.turn.max_steps``.
        """
        return _found(await self._book.infos(), setting)

    @query(role=AccessRole.VIEWER)
    async def state(self, actor: Actor) -> SettingsState:  # noqa: ARG002
        """Say whether the settings files are valid, and which changes wait for a restart."""
        problem = self._book.problem
        infos = [] if problem else await self._book.infos()
        return SettingsState(
            problem=problem,
            waiting=tuple(each.name for each in infos if each.restart_needed),
            in_dotenv=tuple(each.name for each in infos if each.locked_in),
        )

    @action(role=AccessRole.OWNER)
    async def set(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        # All values are of the type Secret, because the audit log gets the parameters before it is
        # known which settings are secrets.
        values: Annotated[dict[SettingName, Secret[JsonValue]], Field(min_length=1)],
        seen: dict[SettingName, JsonValue] | None = None,
    ) -> Change[list[SettingInfo]]:
        """Change settings. They are applied at once, except those that need a restart. If one value
        is refused, no setting is changed.

        Args:
            values: The new values by name. ``null`` removes a setting from the file, so that its
                default applies.
            seen: The values that the person has seen. If one of them has changed since, nothing is
                changed.
        """
        before = await self._book.infos()
        for name, value in (seen or {}).items():
            info = _found(before, name)
            if not info.secret and info.value != value:
                raise ChangedMeanwhile(
                    f"{name} was changed by somebody else: it is {info.value!r} now, and was "
                    f"{value!r}. Read it again, then change it"
                )
        changes = await written(
            self._book.set({name: each.get_secret_value() for name, each in values.items()})
        )
        return await self._change(changes)

    @action(role=AccessRole.OWNER)
    async def unset(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        names: Annotated[list[SettingName], Field(min_length=1)],
    ) -> Change[list[SettingInfo]]:
        """Remove settings from the file, so that their defaults apply.

        Args:
            names: The settings.
        """
        return await self._change(await written(self._book.set(dict.fromkeys(names))))

    @action(role=AccessRole.OWNER)
    async def move_from_env(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        names: list[SettingName] | None = None,
    ) -> Change[list[SettingInfo]]:
        """Move settings from ``.env`` into ``data/settings.toml``, so that the console can change
        them. A copy of ``.env`` is kept in the folder ``env_copies`` of the data folder.

        Args:
            names: The settings; none for all that ``.env`` has.
        """
        changes = await written(self._book.move_from_env(names or []))
        infos = {each.name: each for each in await self._book.infos()}
        moved = [each.name for each in changes]
        return Change(
            result=[infos[name] for name in moved if name in infos],
            subject=", ".join(moved),
            old=".env",
            new="settings.toml",
        )

    @action(role=AccessRole.OPERATOR)
    async def restart(self, actor: Actor) -> Change[None]:  # noqa: ARG002
        """Restart the bot. It answers again within seconds, and continues the turns that were
        running. The restart is refused if the bot could not start with its present settings."""
        self._book.restart()
        return Change(result=None, subject="bot")

    async def _change(self, changes: Sequence[SettingChange]) -> Change[list[SettingInfo]]:
        infos = {each.name: each for each in await self._book.infos()}
        shown = [each for each in changes if not each.secret]
        undo = UndoCall(
            action=f"{self.name}.set",
            parameters={"values": {each.name: each.before for each in changes}},
        )
        return Change(
            result=[infos[each.name] for each in changes if each.name in infos],
            subject=", ".join(each.name for each in changes),
            old={each.name: each.before for each in shown},
            new={each.name: each.after for each in shown},
            undo=undo if len(shown) == len(changes) else None,
        )


async def written(change: Awaitable[Sequence[SettingChange]]) -> Sequence[SettingChange]:
    """Wait for a change of a `SettingsBook`. Raises `ChangedMeanwhile` if somebody else changed the
    settings at the same time, and the errors of the book."""
    try:
        return await change
    except DocumentConflict as error:
        raise ChangedMeanwhile(str(error)) from error


def _found(infos: Sequence[SettingInfo], name: str) -> SettingInfo:
    for each in infos:
        if name in (each.name, each.variable):
            return each
    raise NoSuchItem(f"there is no setting {name!r}")
