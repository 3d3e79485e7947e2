"""Installs, updates and removes a plugin. Either all files of a plugin are
changed, or none.

A plugin is switched off while its files change, so that its code has ended before the files are
replaced. The switch is in the file of plugin switches, which a running bot reads.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

from nekro_core.plugins.host.file_moves import MoveInProgress, PluginMove, delete, move_files
from nekro_core.plugins.host.links import LOCAL_FOLDER
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.host.switches import PluginSwitches, read_list
from nekro_core.plugins.installation.acceptance import NotAccepted, accept, check_with
from nekro_core.plugins.installation.check_order import CheckResult
from nekro_core.plugins.installation.files import FilesRefused, changes, digests
from nekro_core.plugins.installation.inspection import PluginInspection, inspect_plugin
from nekro_core.plugins.installation.installed import (
    InstalledPlugin,
    InstallRecords,
    install_record,
    recover_interrupted,
)
from nekro_core.plugins.installation.own_writes import changes_of_others, keep_files, kept_files
from nekro_core.plugins.installation.packages import PluginNeeds, get_packages, plugin_needs
from nekro_core.plugins.installation.report import RIGHTS, abilities_text, printable
from nekro_core.plugins.installation.sources import FetchedPlugin, PluginSource, fetch
from nekro_core.plugins.installation.switched_off import switched_off
from nekro_core.plugins.packages import PackageFolder, PackagesRefused
from nekro_core.plugins.packages.requirements import PluginRequirement
from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

_STAGING = ".installing"
_LEFT_S = 86_400.0


Preflight = Callable[[Path, Path], Sequence[PluginProblem]]
"""Returns the problems that loading a plugin would report, as far as its files show them. Gets the
plugin and the folder of the installed plugins. An error means that the plugin would not be
loaded."""


def no_preflight(plugin: Path, plugins: Path) -> Sequence[PluginProblem]:
    """Find no problems. This is the `Preflight` of a bot that runs no plugins of other bots."""
    del plugin, plugins
    return ()


class InstallRefused(NekroError):
    """The change was refused, and no plugin was changed. The text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """Changes the plugins of one data folder. ``ask`` asks the operator a question, ``say`` prints
    a line. ``preflight`` finds problems of plugins that were written for another bot. ``check``
    replaces the check in a confined process. All methods block."""

    data_dir: Path
    shelf: PackageFolder
    ask: Callable[[str], bool]
    say: Callable[[str], None]
    settings: PluginSettings = field(default_factory=PluginSettings)
    preflight: Preflight = no_preflight
    check: Callable[[FetchedPlugin], CheckResult] | None = None

    def install(self, source: PluginSource, *, force: bool = False) -> str:
        """Install a plugin. Returns its item name (``local/NAME``), or an empty text if the
        operator said no.

        The plugin is checked first, as `nekro plugin check` does. Without ``force``, one that
        cannot be loaded is refused.

        Raises `InstallRefused`, `SourceRefused`, `FilesRefused`, `InvalidRequirements` and
        `PackagesRefused`. After an error, no plugin has changed.
        """
        self._finish()
        if (here := self._in_place(source)) is not None:
            return self._adopt(source, here, force=force)
        with self._staging() as staging:
            fetched = fetch(source, staging)
            place, item = self._place_of(fetched)
            looked = inspect_plugin(fetched.path)
            if item in self._records.all():
                raise InstallRefused(
                    f"{item} is installed already: run nekro plugin update {fetched.name}"
                )
            if self._taken(place):
                raise InstallRefused(
                    f"{place.name} is in {place.parent} already, and this command did not put it "
                    "there: remove it first, or give its path to adopt it unchanged"
                )
            self._refuse_twin(looked, item)
            needs = plugin_needs(fetched.path, item)
            self._tell(source, fetched, looked, needs)
            if not self.ask("Install it?"):
                return ""
            self._get_checked(item, needs, fetched, force=force)
            record = _record(source, fetched, place, looked)
            with self._moving(item, looked.key, place, staging, record):
                self._move(fetched.path, place, _aside(staging))
                self._records.put(item, record)
        self._follow(item, looked.key)
        return item

    def update(self, name: str, *, force: bool = False) -> str:
        """Fetch a plugin again from its source and install it. Returns its item name, or an empty
        text if nothing changed.

        What the plugin wrote into its folder is kept. Without ``force``, this is refused if other
        files were changed here, or if the plugin cannot be loaded. Raises the same errors as
        `install`.
        """
        self._finish()
        item, record = self._find(name)
        place = self._plugins / record.path
        mine = self._records.changed_since(item)
        with self._staging() as staging:
            fetched = fetch(record.source, staging)
            if self._place_of(fetched)[0] != place:
                raise InstallRefused(
                    f"{record.source} now has the plugin {fetched.name}, no longer {item}"
                )
            different = changes(record.files, _as_placed(fetched, place))
            kept = self._kept(record, place, fetched)
            lost = [line for line in mine if line.partition(" ")[2] not in kept]
            lost = [line for line in lost if changes_of_others([line]) or line in different]
            if lost and not force:
                raise InstallRefused(
                    f"{item} was changed here ({', '.join(lost[:5])}): --force overwrites the "
                    "changes"
                )
            if not different and not (mine and force):
                self._say(f"{item} is as it is there")
                return ""
            looked, before = inspect_plugin(fetched.path), inspect_plugin(place)
            needs = plugin_needs(fetched.path, item)
            self._tell(record.source, fetched, looked, needs)
            self._say(f"  against {before.version or 'what is here'}: {', '.join(different[:20])}")
            known = {ability.text for ability in before.abilities}
            for ability in looked.abilities:
                if ability.text not in known:
                    self._say(f"  NEW: {ability.text}, at {ability.where}")
            if not self.ask("Update it?"):
                return ""
            self._get_checked(item, needs, fetched, force=force)
            fresh = _record(record.source, fetched, place, looked)
            with (
                self._moving(item, looked.key, place, staging, fresh),
                switched_off(self.data_dir, item, looked.key),
            ):
                keep_files(place, fetched.path, kept)
                self._move(fetched.path, place, _aside(staging))
                self._records.put(item, fresh)
        return item

    def _kept(self, record: InstalledPlugin, place: Path, fetched: FetchedPlugin) -> list[str]:
        """The data files of an installed plugin that an update keeps."""
        if not place.is_dir() or not fetched.path.is_dir():
            return []
        try:
            return kept_files(record.files, digests(place), digests(fetched.path))
        except FilesRefused:  # a link, which `changed_since` reports
            return []

    def remove(self, name: str, *, data: bool = False) -> str:
        """Remove a plugin's files. With ``data``, its data folder and configuration are removed
        too. Returns its item name, or an empty text if the operator said no. Raises
        `InstallRefused`."""
        self._finish()
        item, place, key = self._lying(name)
        own = self._own(key) if data and key else None
        if not self.ask(f"Remove {place}{f' and {own}' if own else ''}?"):
            return ""
        record = self._records.all().get(item)
        with (
            self._staging() as staging,
            self._moving(item, key, place, staging, record, loses=own),
            switched_off(self.data_dir, item, key),
        ):
            place.rename(_aside(staging))
            if own is not None:
                delete(own)
            self._records.put(item, None)
        try:
            self.shelf.forget(item)
        except PackagesRefused as error:
            self.say(f"its packages stay for now: {error}")
        return item

    def _own(self, key: str) -> Path:
        folders = self.data_dir / "plugin_data"
        own = folders / key
        # The key was read from the plugin's files, which may be hostile. A key is checked when a
        # plugin is loaded, but this plugin may never have been loaded.
        if own.parent != folders or key == "..":
            raise InstallRefused(
                f"{key!r} is no name of a folder: the plugin's data, if any, is not deleted"
            )
        return own

    def _say(self, text: str) -> None:
        """Print a line without control characters. The line may contain names from a hostile
        plugin."""
        self.say(printable(text))

    @property
    def _plugins(self) -> Path:
        return self.data_dir / LOCAL_FOLDER

    @property
    def _records(self) -> InstallRecords:
        return InstallRecords(self.data_dir)

    @contextmanager
    def _staging(self) -> Iterator[Path]:
        """Make a temporary folder on the disk of the data folder, so that a rename moves finished
        files to their place."""
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self.data_dir.glob(f"{_STAGING}*"):  # of a killed command
            if time.time() - left.stat().st_mtime > _LEFT_S:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=self.data_dir) as folder:
            yield Path(folder)

    def _in_place(self, source: PluginSource) -> Path | None:
        here = Path(source.address) if source.kind in ("folder", "file") else None
        if here and here.resolve().parent == self._plugins.resolve():
            return self._plugins / here.name
        return None

    def _adopt(self, source: PluginSource, place: Path, *, force: bool) -> str:
        """Install a plugin whose files the operator has put into the bot's folder by hand: check
        it, install its packages and record its files."""
        item = f"local/{place.stem if place.is_file() else place.name}"
        looked = inspect_plugin(place)
        needs = plugin_needs(place, item)
        found = FetchedPlugin(place, place.stem)
        self._tell(source, found, looked, needs)
        if not self.ask("Take it over?"):
            return ""
        self._get_checked(item, needs, found, force=force)
        self._records.put(item, _record(source, found, place, looked))
        with switched_off(self.data_dir, item, looked.key):
            pass
        return item

    def _place_of(self, fetched: FetchedPlugin) -> tuple[Path, str]:
        name = f"{fetched.name}.py" if fetched.path.is_file() else fetched.name
        return self._plugins / name, f"local/{fetched.name}"

    def _taken(self, place: Path) -> bool:
        """Whether the plugins' folder already has a file or a folder of this name."""
        stem = place.stem if place.suffix == ".py" else place.name
        return any((self._plugins / each).exists() for each in (stem, f"{stem}.py"))

    def _refuse_twin(self, looked: PluginInspection, item: str) -> None:
        twins = [each.item for each in read_list(self.data_dir) if each.key == looked.key]
        twins += [each for each, record in self._records.all().items() if record.key == looked.key]
        twins = [each for each in twins if each != item]
        if looked.key and twins:
            raise InstallRefused(f"{twins[0]} has the key {looked.key} already: remove it first")

    def _tell(
        self,
        source: PluginSource,
        fetched: FetchedPlugin,
        looked: PluginInspection,
        needs: PluginNeeds,
    ) -> None:
        files = digests(fetched.path)
        commit = f", commit {fetched.commit[:12]}" if fetched.commit else ""
        self._say(f"{looked.key or fetched.name} {looked.version}: {looked.name}".rstrip(": "))
        self._say(f"  from {source}{commit}; {len(files)} files")
        for line in abilities_text(looked):
            self._say(line)
        self._tell_manifest_problems(fetched.path)
        if needs.declared:
            missing = [need for need in needs.declared if not self.shelf.has(need.requirement)]
            wanted = ", ".join(str(need.requirement) for need in needs.declared)
            here = " (all there)" if not missing else ""
            self._say(f"  needs packages: {wanted}{here}")
        for line in needs.offers():
            self._say(f"  {line}")
        self._say(RIGHTS)

    def _tell_manifest_problems(self, plugin: Path) -> None:
        """Print the warnings that the bot would log. Raises `InstallRefused` for a plugin that the
        bot would not load."""
        found = self.preflight(plugin, self._plugins)
        errors = [each for each in found if each.severity is ProblemSeverity.ERROR]
        if errors:
            told = "\n".join(map(str, errors))
            raise InstallRefused(f"a bot could not load it:\n{told}")
        for each in found:
            self._say(f"  {each.severity.value}: {each}")

    def _get_checked(
        self, item: str, needs: PluginNeeds, fetched: FetchedPlugin, *, force: bool
    ) -> None:
        """Install a plugin's packages and check the plugin with them; see `accept`."""
        before = [
            PluginRequirement(Requirement(text), item) for text in self.shelf.needs.get(item, ())
        ]
        check = self.check or (
            lambda plugin: check_with(plugin, self.shelf, self.settings, self.data_dir)
        )
        try:
            accept(
                lambda: check(fetched),
                item,
                needs,
                get=lambda wanted: self._get(item, wanted),
                say=self._say,
                force=force,
            )
        except NotAccepted as error:
            self._get(item, PluginNeeds(tuple(before)))
            raise InstallRefused(str(error)) from None

    def _get(self, item: str, needs: PluginNeeds) -> None:
        gone = [other for other in self.shelf.needs if other != item and self._is_gone(other)]
        for line in get_packages(self.shelf, item, needs, gone):
            self._say(f"  {line}")

    def _is_gone(self, item: str) -> bool:
        """Whether the plugin's files were removed by hand."""
        source, _, name = item.partition("/")
        return source == "local" and not self._taken(self._plugins / name)

    def _finish(self) -> None:
        """Finish or undo a change that a killed command has begun."""
        if self.data_dir.is_dir():
            recover_interrupted(self.data_dir)

    @contextmanager
    def _moving(
        self,
        item: str,
        key: str,
        place: Path,
        staging: Path,
        record: InstalledPlugin | None,
        *,
        loses: Path | None = None,
    ) -> Iterator[None]:
        """Keep a note about the change on disk while the plugin's files are moved. If this process
        is killed, the note says how to finish or undo the change."""
        plan = PluginMove(
            item=item,
            key=key,
            place=place.relative_to(self.data_dir).as_posix(),
            aside=_aside(staging).relative_to(self.data_dir).as_posix(),
            replaces=place.exists(),
            wanted=PluginSwitches(self.data_dir).wanted(item),
            record=msgspec.Raw(msgspec.json.encode(record)),
            loses=(loses.relative_to(self.data_dir).as_posix(),) if loses else (),
        )
        try:
            with move_files(self.data_dir, plan):
                yield
        except MoveInProgress as error:
            raise InstallRefused(str(error)) from None

    def _move(self, ready: Path, place: Path, aside: Path) -> None:
        """Move the new files to their place. The old files are first moved to ``aside``, and moved
        back if this fails."""
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            place.rename(aside)
        try:
            ready.rename(place)
        except BaseException:
            if aside.exists():
                aside.rename(place)
            raise

    def _find(self, name: str) -> tuple[str, InstalledPlugin]:
        every = self._records.all()
        for item, record in every.items():
            if name in (item, record.key, item.partition("/")[2]) and name:
                return item, record
        known = ", ".join(record.key or item for item, record in every.items()) or "none"
        raise InstallRefused(f"{name!r} was not installed by this command; there are {known}")

    def _lying(self, name: str) -> tuple[str, Path, str]:
        """Find a plugin in the bot's folder, whether it was installed or put there by hand."""
        listed = {each.item: each.key for each in read_list(self.data_dir)}
        for path in sorted(self._plugins.iterdir()) if self._plugins.is_dir() else ():
            stem = path.stem if path.suffix == ".py" else path.name
            item = f"local/{stem}"
            if stem.startswith((".", "_")):
                continue
            record = self._records.all().get(item)
            key = (record.key if record else "") or listed.get(item, "")
            if name and name in (item, stem, key):
                return item, path, key or inspect_plugin(path).key
        raise InstallRefused(f"there is no plugin {name!r} in {self._plugins}")

    def _follow(self, item: str, key: str) -> None:
        """Make a running bot read the plugins' folder again, by writing the file of switches
        unchanged."""
        PluginSwitches(self.data_dir).choose(
            item, key, wanted=PluginSwitches(self.data_dir).wanted(item)
        )


def _aside(staging: Path) -> Path:
    """Return the path where the old files are stored during the move. They are deleted with the
    staging folder."""
    return staging / "replaced"


def _record(
    source: PluginSource, fetched: FetchedPlugin, place: Path, looked: PluginInspection
) -> InstalledPlugin:
    return install_record(
        source,
        place,
        _as_placed(fetched, place),
        key=looked.key,
        version=looked.version,
        commit=fetched.commit,
    )


def _as_placed(fetched: FetchedPlugin, place: Path) -> dict[str, str]:
    """The digests of the fetched files, under the names that the files will have after the move."""
    found = digests(fetched.path)
    return {place.name: next(iter(found.values()))} if fetched.path.is_file() else found
