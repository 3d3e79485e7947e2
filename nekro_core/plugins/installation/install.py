"""Installs, updates, restores and removes plugins. A change is either completed or undone.

A plugin is switched off while its files change, so that its code has ended before the files are
replaced. The switch is in the file of plugin switches, which a running bot reads.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

from nekro_core.plugins.host.file_moves import delete
from nekro_core.plugins.host.links import LOCAL_FOLDER
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.host.switches import PluginSwitches, read_list
from nekro_core.plugins.installation.acceptance import NotAccepted, accept, check_with
from nekro_core.plugins.installation.archives import (
    PluginArchives,
    belongs_to_cluster,
    note_data_removed,
    removed_with_data,
)
from nekro_core.plugins.installation.bot_follower import (
    BotFollower,
    InstallRefused,
    InstallStage,
    Preflight,
    ignore_stage,
    no_preflight,
)
from nekro_core.plugins.installation.check_order import CheckResult
from nekro_core.plugins.installation.exchange import FileExchange, NewFiles
from nekro_core.plugins.installation.files import FilesRefused, changes, copy_files, digests
from nekro_core.plugins.installation.inspection import PluginInspection, inspect_plugin
from nekro_core.plugins.installation.installed import (
    InstalledPlugin,
    InstallRecords,
    install_record,
    recover_interrupted,
)
from nekro_core.plugins.installation.own_writes import changes_of_others, kept_files
from nekro_core.plugins.installation.packages import PluginNeeds, get_packages, plugin_needs
from nekro_core.plugins.installation.proposal import PluginProposal, digest_of, needed_packages
from nekro_core.plugins.installation.report import printable, proposal_lines
from nekro_core.plugins.installation.sources import FetchedPlugin, PluginSource, fetch
from nekro_core.plugins.installation.versions import OldVersion, OldVersions
from nekro_core.plugins.packages import PackageFolder, PackagesRefused
from nekro_core.plugins.packages.requirements import PluginRequirement
from nekro_core.system.thread_cancellation import not_stopped, stop_if_cancelled
from nekro_core.tools.problem import ProblemSeverity

_STAGING = ".installing"
_LEFT_S = 86_400.0
"""A temporary folder that is older than this many seconds belongs to no running command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installer:
    """Changes the plugins of one data folder. ``shelf`` is the folder of the packages that plugins
    need. ``ask`` asks the operator a question and returns True for yes; ``say`` prints a line.
    ``preflight`` finds problems of plugins that were written for another bot. If ``check`` is not
    None, it is used instead of the check in a confined process. ``follower`` is the bot of this
    process; None if the bot is another process, which reads the file of switches. ``reach`` is
    called at the beginning of each stage. All methods block."""

    data_dir: Path
    shelf: PackageFolder
    ask: Callable[[str], bool]
    say: Callable[[str], None]
    settings: PluginSettings = field(default_factory=PluginSettings)
    preflight: Preflight = no_preflight
    check: Callable[[FetchedPlugin], CheckResult] | None = None
    follower: BotFollower | None = None
    reach: Callable[[InstallStage], None] = ignore_stage

    def propose(self, source: PluginSource, *, check: bool = False) -> PluginProposal:
        """Fetch a plugin and describe what it is and what it may do, without installing it. With
        ``check``, also load it in a confined process, with the packages that it needs; but not if
        one of the problems in its files is an error.

        Raises `SourceRefused`, `FilesRefused`, `InvalidRequirements` and `PackagesRefused`.
        """
        with self._staging() as staging:
            self.reach(InstallStage.FETCH)
            fetched = fetch(source, staging)
            found = self._proposal(source, fetched)
            if not check or any(each.severity is ProblemSeverity.ERROR for each in found.problems):
                return found
            self.reach(InstallStage.CHECK)
            needs = plugin_needs(fetched.path, found.item)
            run = self.check or (
                lambda plugin: check_with(plugin, self.shelf, self.settings, self.data_dir, needs)
            )
            return replace(found, check=run(fetched))

    def propose_update(self, name: str, *, check: bool = False) -> PluginProposal:
        """Do the same as `propose` for a new version of an installed plugin, from its source. Also
        raises `InstallRefused` if the plugin is unknown."""
        _, record = self._find(name)
        return self.propose(record.source, check=check)

    def install(self, source: PluginSource, *, force: bool = False, expected: str = "") -> str:
        """Install a plugin. Returns its item name (``local/NAME``), or an empty text if the
        operator said no.

        The plugin is checked first, as `nekro plugin check` does. Without ``force``, a plugin that
        cannot be loaded is refused. ``expected`` is the `PluginProposal.digest` that the operator
        was shown. If the files have another digest, they are refused. If ``expected`` is empty, any
        files are accepted. If the source is a file or folder in the bot's own folder of plugins, it
        stays there.

        Raises `InstallRefused`, `SourceRefused`, `FilesRefused`, `InvalidRequirements` and
        `PackagesRefused`. After an error, no plugin has changed.
        """
        self._finish()
        if (here := self._in_place(source)) is not None:
            return self._adopt(source, here, force=force, expected=expected)
        with self._staging() as staging:
            self.reach(InstallStage.FETCH)
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
            found = self._proposal(source, fetched)
            _refuse_other(found, expected)
            self._say_all(proposal_lines(found))
            if not self.ask("Install it?"):
                return ""
            needs, before = plugin_needs(fetched.path, item), self._needs_of(item)
            self._get_checked(item, needs, fetched, force=force)
            new = NewFiles(
                item=item,
                key=looked.key,
                ready=fetched.path,
                place=place,
                staging=staging,
                record=_record(source, fetched, place, looked),
            )
            self._exchange(new, before, force=force)
        self._follow(item, looked.key)
        return item

    def update(
        self,
        name: str,
        *,
        force: bool = False,
        expected: str = "",
        source: PluginSource | None = None,
    ) -> str:
        """Fetch a plugin again and install it. Returns its item name, or an empty text if the
        source has no other files than before, or if the operator said no.

        ``source`` is the source of the new version; None for the source from which the plugin was
        installed. Files that the plugin wrote into its folder are kept. Without ``force``, the
        update is refused if somebody has changed other files, or if the new version cannot be
        loaded. The old version is kept, see `roll_back`. Raises the same errors as `install`.
        """
        self._finish()
        item, record = self._find(name)
        source = source or record.source
        place = self._plugins / record.path
        mine = self._records.changed_since(item)
        with self._staging() as staging:
            self.reach(InstallStage.FETCH)
            fetched = fetch(source, staging)
            if self._place_of(fetched)[0] != place:
                raise InstallRefused(
                    f"{source} now has the plugin {fetched.name}, no longer {item}"
                )
            found = self._proposal(source, fetched)
            _refuse_other(found, expected)
            if found.lost and not force:
                raise InstallRefused(
                    f"{item} was changed here ({', '.join(found.lost[:5])}): --force overwrites "
                    "the changes"
                )
            if not found.changes and not (mine and force):
                self._say(f"{item} is as it is there")
                return ""
            self._say_all(proposal_lines(found))
            if not self.ask("Update it?"):
                return ""
            needs, before = plugin_needs(fetched.path, item), self._needs_of(item)
            self._get_checked(item, needs, fetched, force=force)
            new = NewFiles(
                item=item,
                key=found.looked.key,
                ready=fetched.path,
                place=place,
                staging=staging,
                record=_record(source, fetched, place, found.looked),
                kept=tuple(self._kept(record, place, fetched)),
            )
            self._exchange(new, before, force=force)
        return item

    def versions(self, name: str) -> tuple[OldVersion, ...]:
        """Return the old versions of an installed plugin that `roll_back` can restore, the newest
        first. Raises `InstallRefused` if the plugin is unknown."""
        item, _ = self._find(name)
        return self._versions.of(item)

    def roll_back(self, name: str, number: int | None = None) -> str:
        """Replace a plugin by its old version with this number; None for the newest old version.
        Returns the plugin's item name, or an empty text if the operator said no.

        Files that the plugin wrote into its folder are kept. The replaced version becomes an old
        version. The old version is not checked: it replaces the present one even if it cannot be
        loaded. Raises `InstallRefused` and `PackagesRefused`; after an error, the plugin's files
        are unchanged.
        """
        self._finish()
        item, record = self._find(name)
        every = self._versions.of(item)
        old = next((each for each in every if number in (None, each.number)), None)
        if old is None:
            known = ", ".join(f"{each.number} ({each.record.version})" for each in every)
            raise InstallRefused(
                f"there is no old version {number or ''} of {item}; there are {known}"
                if every
                else f"there is no old version of {item}: one is kept at each update"
            )
        place = self._plugins / record.path
        with self._staging() as staging:
            ready = staging / place.name
            _copy(old.files, ready)
            if not self.ask(f"Go back from {record.version} to {old.record.version}?"):
                return ""
            kept = kept_files(record.files, self._here(place), old.record.files)
            needs, before = plugin_needs(ready, item), self._needs_of(item)
            if [str(each.requirement) for each in needs.every] != before:
                self.reach(InstallStage.PACKAGES)
                self._get(item, needs)
            new = NewFiles(
                item=item,
                key=old.record.key,
                ready=ready,
                place=place,
                staging=staging,
                record=msgspec.structs.replace(old.record, at=time.time(), path=record.path),
                kept=tuple(kept),
            )
            self._exchange(new, before, force=True)
        return item

    def _proposal(self, source: PluginSource, fetched: FetchedPlugin) -> PluginProposal:
        place, item = self._place_of(fetched)
        looked = inspect_plugin(fetched.path)
        needs = plugin_needs(fetched.path, item)
        files = _as_placed(fetched, place)
        made = PluginProposal(
            item=item,
            source=source,
            commit=fetched.commit,
            digest=digest_of(files),
            looked=looked,
            packages=needed_packages(
                needs,
                {str(each.requirement): self.shelf.has(each.requirement) for each in needs.every},
            ),
            notes=tuple(needs.offers()),
            problems=tuple(self.preflight(fetched.path, self._plugins)),
            files=len(files),
        )
        record = self._records.all().get(item)
        if record is None:
            return made
        different = changes(record.files, files)
        kept = self._kept(record, place, fetched)
        lost = [
            line
            for line in self._records.changed_since(item)
            if line.partition(" ")[2] not in kept
            and (changes_of_others([line]) or line in different)
        ]
        before = inspect_plugin(place) if place.exists() else PluginInspection()
        known = {ability.text for ability in before.abilities}
        return replace(
            made,
            installed=before.version or "what is here",
            changes=tuple(different),
            new_abilities=tuple(each for each in looked.abilities if each.text not in known),
            lost=tuple(lost),
        )

    def _exchange(self, new: NewFiles, needs: list[str], *, force: bool) -> None:
        """Replace the files of a plugin. If the new files cannot be loaded, or if another command
        is changing plugins, restore the packages for ``needs``, the earlier requirements. In the
        data folder of a cluster's process, first make the archive for the other processes."""
        if belongs_to_cluster(self.data_dir):
            try:
                PluginArchives(self.data_dir).pack(new.ready, new.record.files)
            except (FilesRefused, OSError) as error:
                self._say(f"  the other processes do not get it: {error}")
            note_data_removed(self.data_dir, removed_with_data(self.data_dir) - {new.item})
        restore = partial(self._restore_packages, new.item, needs)
        try:
            self._files.replace(new, force=force, restore=restore)
        except InstallRefused:
            restore()
            raise

    def _needs_of(self, item: str) -> list[str]:
        return [*self.shelf.needs.get(item, ())]

    def _restore_packages(self, item: str, needs: list[str]) -> None:
        """Restore the earlier requirements of a plugin. This also works after the operator has
        cancelled the change."""
        if self._needs_of(item) == needs:
            return
        with not_stopped():
            wanted = tuple(PluginRequirement(Requirement(text), item) for text in needs)
            try:
                self._get(item, PluginNeeds(wanted))
            except PackagesRefused as error:
                self._say(f"  its packages are not as they were: {error}")

    @property
    def _files(self) -> FileExchange:
        return FileExchange(data_dir=self.data_dir, follower=self.follower, reach=self.reach)

    def _kept(self, record: InstalledPlugin, place: Path, fetched: FetchedPlugin) -> list[str]:
        """Return the data files of an installed plugin that an update keeps."""
        if not place.is_dir() or not fetched.path.is_dir():
            return []
        return kept_files(record.files, self._here(place), digests(fetched.path))

    def _here(self, place: Path) -> dict[str, str]:
        """Return the digests of an installed plugin's files; empty if the plugin is not a
        folder."""
        try:
            return digests(place) if place.is_dir() else {}
        except FilesRefused:  # for example because of a link, which `changed_since` reports
            return {}

    def remove(self, name: str, *, data: bool = False) -> str:
        """Remove a plugin's files, its old versions and the packages that only it needed. With
        ``data``, its data folder and configuration are removed too. Returns its item name, or an
        empty text if the operator said no. Raises `InstallRefused`."""
        self._finish()
        item, place, key = self._lying(name)
        own = self._own(key) if data and key else None
        if not self.ask(f"Remove {place}{f' and {own}' if own else ''}?"):
            return ""
        if own is not None and belongs_to_cluster(self.data_dir):
            note_data_removed(self.data_dir, {*removed_with_data(self.data_dir), item})
        self._remove(item, place, key, own)
        return item

    def _remove(self, item: str, place: Path, key: str, own: Path | None) -> None:
        """Remove a plugin's files, its record, its old versions, its packages and the folder
        ``own``."""
        record = self._records.all().get(item)
        with (
            self._staging() as staging,
            self._files.moving(item, key, place, staging / "replaced", record, loses=own),
            self._files.quiet(item, key),
        ):
            if place.exists():
                place.rename(staging / "replaced")
            if own is not None:
                delete(own)
            self._records.put(item, None)
        self._versions.forget(item)
        try:
            self.shelf.forget(item)
        except PackagesRefused as error:
            self.say(f"its packages stay for now: {error}")

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

    def _say_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._say(line)

    @property
    def _plugins(self) -> Path:
        return self.data_dir / LOCAL_FOLDER

    @property
    def _versions(self) -> OldVersions:
        return OldVersions(self.data_dir)

    @property
    def _records(self) -> InstallRecords:
        return InstallRecords(self.data_dir)

    @contextmanager
    def _staging(self) -> Iterator[Path]:
        """Make a temporary folder on the disk of the data folder, so that a rename moves finished
        files to their place."""
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self.data_dir.glob(f"{_STAGING}*"):  # folders that a killed command has left
            if time.time() - left.stat().st_mtime > _LEFT_S:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_STAGING, dir=self.data_dir) as folder:
            yield Path(folder)

    def _in_place(self, source: PluginSource) -> Path | None:
        here = Path(source.address) if source.kind in ("folder", "file") else None
        if here and here.resolve().parent == self._plugins.resolve():
            return self._plugins / here.name
        return None

    def _adopt(self, source: PluginSource, place: Path, *, force: bool, expected: str) -> str:
        """Install a plugin whose files the operator has put into the bot's folder by hand: check
        it, install its packages and record its files."""
        if expected:
            # Compare a copy, as `propose` does: the copy can have another name.
            with self._staging() as staging:
                _refuse_other(self._proposal(source, fetch(source, staging)), expected)
        item = f"local/{place.stem if place.is_file() else place.name}"
        looked = inspect_plugin(place)
        needs = plugin_needs(place, item)
        found = FetchedPlugin(place, place.stem)
        self._say_all(proposal_lines(self._proposal(source, found)))
        if not self.ask("Take it over?"):
            return ""
        self._get_checked(item, needs, found, force=force)
        self._records.put(item, _record(source, found, place, looked))
        with self._files.quiet(item, looked.key):
            pass
        return item

    def _place_of(self, fetched: FetchedPlugin) -> tuple[Path, str]:
        name = f"{fetched.name}.py" if fetched.path.is_file() else fetched.name
        return self._plugins / name, f"local/{fetched.name}"

    def _taken(self, place: Path) -> bool:
        """Return True if the plugins' folder already has a file or a folder of this name."""
        stem = place.stem if place.suffix == ".py" else place.name
        return any((self._plugins / each).exists() for each in (stem, f"{stem}.py"))

    def _refuse_twin(self, looked: PluginInspection, item: str) -> None:
        twins = [each.item for each in read_list(self.data_dir) if each.key == looked.key]
        twins += [each for each, record in self._records.all().items() if record.key == looked.key]
        twins = [each for each in twins if each != item]
        if looked.key and twins:
            raise InstallRefused(f"{twins[0]} has the key {looked.key} already: remove it first")

    def _get_checked(
        self, item: str, needs: PluginNeeds, fetched: FetchedPlugin, *, force: bool
    ) -> None:
        """Install a plugin's packages and check the plugin with them; see `accept`."""
        before = self._needs_of(item)
        check = self.check or (
            lambda plugin: check_with(plugin, self.shelf, self.settings, self.data_dir)
        )
        self.reach(InstallStage.PACKAGES)
        try:
            accept(
                lambda: self._checked(check, fetched),
                item,
                needs,
                get=lambda wanted: self._get(item, wanted),
                say=self._say,
                force=force,
            )
        except NotAccepted as error:
            self._restore_packages(item, before)
            raise InstallRefused(str(error)) from None
        except BaseException:  # Cancellations are handled too.
            self._restore_packages(item, before)
            raise

    def _checked(
        self, check: Callable[[FetchedPlugin], CheckResult], fetched: FetchedPlugin
    ) -> CheckResult:
        self.reach(InstallStage.CHECK)
        stop_if_cancelled()
        return check(fetched)

    def _get(self, item: str, needs: PluginNeeds) -> None:
        gone = [other for other in self.shelf.needs if other != item and self._is_gone(other)]
        for line in get_packages(self.shelf, item, needs, gone):
            self._say(f"  {line}")

    def _is_gone(self, item: str) -> bool:
        """Return True if the plugin's files were removed by hand."""
        source, _, name = item.partition("/")
        return source == "local" and not self._taken(self._plugins / name)

    def _finish(self) -> None:
        """Finish or undo a change that a killed command has begun."""
        if self.data_dir.is_dir():
            recover_interrupted(self.data_dir)

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
        """Write the file of switches without a change. A running bot then reads the plugins' folder
        again."""
        PluginSwitches(self.data_dir).choose(
            item, key, wanted=PluginSwitches(self.data_dir).wanted(item)
        )


def _refuse_other(found: PluginProposal, expected: str) -> None:
    if expected and found.digest != expected:
        raise InstallRefused(
            f"{found.source} has other files now than those that were shown: look at it again"
        )


def _copy(files: Path, target: Path) -> None:
    if files.is_file():
        shutil.copyfile(files, target)
    else:
        copy_files(files, target)


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
    """Return the digests of the fetched files, by the names that the files will have after the
    move."""
    found = digests(fetched.path)
    return {place.name: next(iter(found.values()))} if fetched.path.is_file() else found
