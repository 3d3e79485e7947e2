"""Lets operators read and change the settings of the running bot."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nekro_core.app.running_settings import RunningSettings
from nekro_core.app.settings_catalogue import setting_infos
from nekro_core.app.settings_editor import SettingsEditor
from nekro_core.app.settings_sources import SettingsError
from nekro_core.system.errors import NekroError
from nekro_core.system.setting_info import SettingChange, SettingInfo


class RestartUnavailable(NekroError):
    """This process cannot restart the bot, because another program runs the bot in it."""


class SettingsUnreadable(NekroError):
    """The settings of this bot do not come from files, so they cannot be changed."""


class RunningSettingsBook:
    """Implements `nekro_core.operator.settings.SettingsBook`. A change is in force when its method
    returns.

    Args:
        running: The settings in force.
        editor: Changes the files; None if the settings in force do not come from files.
        restart: Begins a restart; None if this process cannot.
    """

    def __init__(
        self,
        running: RunningSettings,
        editor: SettingsEditor | None,
        restart: Callable[[], None] | None = None,
    ) -> None:
        self._running = running
        self._editor = editor
        self._restart = restart

    @property
    def problem(self) -> str:
        """See `SettingsBook.problem`."""
        return self._running.problem

    async def infos(self) -> Sequence[SettingInfo]:
        """See `SettingsBook.infos`. While a file is not valid, the last valid settings are
        returned."""
        try:
            return await self._files().infos(self._running.in_force)
        except SettingsError:
            return setting_infos(self._running.wanted, self._running.in_force)

    async def set(self, values: Mapping[str, Any]) -> Sequence[SettingChange]:
        """See `SettingsBook.set`, and `SettingsEditor.set` for the errors."""
        changes = await self._files().set(values)
        await self._running.look()
        return changes

    async def move_from_env(self, names: Sequence[str]) -> Sequence[SettingChange]:
        """See `SettingsBook.move_from_env`, and `SettingsEditor.move_from_env` for the errors."""
        changes = await self._files().move_from_env(names)
        await self._running.look()
        return changes

    def _files(self) -> SettingsEditor:
        if self._editor is None:
            raise SettingsUnreadable(
                "the settings of this bot were given by a program: change them there"
            )
        return self._editor

    def restart(self) -> None:
        """See `SettingsBook.restart`. Raises `SettingsError` if the settings are wrong."""
        if self._restart is None:
            raise RestartUnavailable(
                "this process cannot restart the bot: restart the program that runs it"
            )
        self._restart()
