"""Applies changes of the settings files while the bot runs."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
from loguru import logger

from nekro_core.app.settings import Settings
from nekro_core.app.settings_file import SECRETS, SETTINGS
from nekro_core.app.settings_sources import SettingsError, dotenv_files
from nekro_core.system.atomic_files import WatchedFile
from nekro_core.system.live_settings import Applies, LiveSettings, applies

LOOK_S = 0.5
"""Seconds between two checks of the files. A check asks the kernel for the status of four files."""
_SAVED_S = 0.5
"""Maximum time in seconds in which an editor saves a file. Some editors first empty or rename the
file, and then write it."""


class RunningSettings:
    """The settings in force. When one of the files changes, its new values come into force, except
    those that need a restart. If a file is not valid, the last valid settings stay in force, and
    the log names file, line and setting.

    Args:
        settings: The settings with which the bot started. New values are written into this object.
            If the settings were not read from files, they do not change.
        named_platforms: The platforms that the files and the environment name. By default, these
            are all platforms of the settings, also those that an operator switched on.
    """

    def __init__(self, settings: Settings, named_platforms: Sequence[str] | None = None) -> None:
        self.settings = settings
        """The settings in force."""
        self.wanted = settings
        if named_platforms is not None:
            self.wanted = settings.model_copy(update={"nekro_platforms": tuple(named_platforms)})
        self._named = self.wanted.nekro_platforms
        """The platforms that the files and the environment named at the start. ``wanted`` are all
        settings as they were when the files and the environment were last read without an error."""
        self.problem = ""
        """What is wrong with the files now; empty if they are valid."""
        self._files: list[WatchedFile] = []
        self._folder = Path()
        if settings.were_read:
            sources = settings.sources
            self._folder = sources.folder
            paths: tuple[Path, ...] = (sources.data / SETTINGS, sources.data / SECRETS)
            self._files = [WatchedFile(path) for path in (*paths, *dotenv_files(sources.folder))]
        self._followers: list[Callable[[], Awaitable[None]]] = []
        self._looking = anyio.Lock()
        for file in self._files:
            file.changed()

    @property
    def in_force(self) -> Settings:
        """The settings in force, with only those platforms that the files name."""
        return self.settings.model_copy(update={"nekro_platforms": self._named})

    def listen(self, follower: Callable[[], Awaitable[None]]) -> None:
        """Call ``follower`` after each change of the settings in force. It can then make an object
        again that was made from a setting."""
        self._followers.append(follower)

    async def watch(self) -> None:
        """Check the files every `LOOK_S` seconds until cancelled."""
        while True:
            await anyio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> bool:
        """Read the files if one of them has changed. If it is empty or missing now, wait a moment
        before: an editor may be saving it. Returns True if settings in force have changed."""
        async with self._looking:
            try:
                changed = [file for file in self._files if file.changed()]
                if any(file.is_empty() for file in changed):
                    await anyio.sleep(_SAVED_S)
                    for file in self._files:
                        file.changed()
            except OSError as error:
                self._complain(str(error))
                return False
            return bool(changed) and await self._take()

    async def _take(self) -> bool:
        try:
            newer = await anyio.to_thread.run_sync(_load, self._folder)
        except SettingsError as error:
            self._complain(str(error))
            return False
        if self.problem:
            logger.info("the settings are in order again")
        self.problem, self.wanted = "", newer
        before = self.settings.model_dump()
        self._take_over(newer)
        if self.settings.model_dump() == before:
            return False
        for follower in self._followers:
            try:
                await follower()
            except Exception:  # noqa: BLE001 - one room's fault must not keep the others back
                logger.exception("a changed setting could not be applied")
        logger.info("changed settings are in force")
        return True

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            logger.error("the settings are not applied, the last good ones stay: {}", problem)
        self.problem = problem

    def _take_over(self, newer: Settings) -> None:
        for name, field in Settings.model_fields.items():
            mine, theirs, mark = getattr(self.settings, name), getattr(newer, name), applies(field)
            if isinstance(mine, LiveSettings):
                mine.take_over(theirs, mark)
            elif mark is Applies.AT_ONCE and isinstance(mine, dict):
                mine.clear()
                mine.update(theirs)
            elif mark is Applies.AT_ONCE:
                setattr(self.settings, name, theirs)
        self.settings.commands.take_over(newer.commands)
        self.settings.come_from(newer)


def _load(folder: Path) -> Settings:
    settings = Settings.load(folder)
    _ = settings.commands  # This reads the adapters' manifests, so do it in this thread.
    return settings
