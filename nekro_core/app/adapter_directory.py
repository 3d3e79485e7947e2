"""Finds adapters by their manifests, without importing them.

Each adapter has a manifest. The manifest is in a folder of the built-in adapters, in a folder of
``data/adapters/``, or in an installed package with an entry point in the group
``nekro_core.adapters``.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from nekro_core.delivery.adapter_manifest import AdapterManifest, ManifestError, read_manifests
from nekro_core.plugins.host.builtin import builtin_folder, builtin_package
from nekro_core.system.errors import NekroError

ENTRY_POINTS = "nekro_core.adapters"
"""The entry point group of installed adapters. An entry point's name is the adapter's name, and its
value is the package with the manifest."""
FOLDER = "adapters"
"""The folder of the operator's own adapters, in the data folder."""
PACKAGE = "nekro_adapters"
"""The package under which the operator's own adapters are imported."""


class AdapterBroken(NekroError, OSError):
    """An adapter cannot be used, or failed to erase a person. The text names the adapter and the
    reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterDirectory:
    """The adapters that were found, by name, and the problems of faulty adapters."""

    manifests: Mapping[str, AdapterManifest]
    problems: tuple[str, ...] = ()

    @classmethod
    def find(cls, data_dir: Path, wanted: Iterable[str] = (), *, installed: bool = False) -> Self:
        """Read the manifests in all folders, and the manifests of installed packages for the
        adapters in ``wanted``.

        With ``installed``, the manifests of all installed packages are read. The bot does not do
        this at its start, because it takes some milliseconds.
        """
        found: dict[str, AdapterManifest] = {}
        problems: list[str] = []
        for folder, package in _folders(data_dir):
            _add(found, problems, folder, package)
        for name, package in _installed(None if installed else set(wanted) - found.keys()):
            try:
                _add(found, problems, _place_of(name, package), package, by_name=name)
            except AdapterBroken as error:
                problems.append(str(error))
        return cls(manifests=found, problems=tuple(problems))

    def enabled(self, wanted: Sequence[str]) -> list[AdapterManifest]:
        """Return the adapters that always run, and those whose name is in ``wanted``."""
        return [each for each in self.manifests.values() if each.always or each.name in wanted]

    def unknown(self, wanted: Iterable[str]) -> Iterator[str]:
        """Yield an error text for each wanted name that no adapter has. It suggests the most
        similar name."""
        known = sorted(each.name for each in self.manifests.values() if not each.always)
        for name in wanted:
            if name not in self.manifests:
                close = difflib.get_close_matches(name, known, 1)
                remedy = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                yield f"NEKRO_PLATFORMS: no platform {name!r}; {remedy}"

    def own_settings(self, wanted: Sequence[str], names: Iterable[str]) -> dict[str, bool]:
        """Return those of ``names`` (in lower case) that are settings of an enabled adapter. The
        value is True if the setting must stay a text and not be parsed as JSON."""
        running = self.enabled(wanted)
        texts = tuple(p for each in running if each.settings_as_text for p in each.settings)
        read = tuple(p for each in running if not each.settings_as_text for p in each.settings)
        return {name: not name.startswith(read) for name in names if name.startswith(texts + read)}

    def all_settings(self) -> tuple[str, ...]:
        """Return the prefixes with which the names of adapters' settings begin, in lower case."""
        return tuple(prefix for each in self.manifests.values() for prefix in each.settings)

    def address_settings(self) -> tuple[str, ...]:
        """Return the `AdapterManifest.address_settings` of all adapters."""
        return tuple(name for each in self.manifests.values() for name in each.address_settings)

    def superuser_platforms(self, written: str | None) -> tuple[str, ...]:
        """Return the adapters for which an entry in NoneBot's ``SUPERUSERS`` counts. ``written`` is
        the entry's platform prefix, or None.

        NoneBot applies an id without a prefix to every platform, so a stranger with the same id on
        another platform would be an operator. Here such an id counts only for adapters whose
        manifest has ``bare_superusers``.
        """
        every = self.manifests.values()
        if written is None:
            return tuple(each.name for each in every if each.bare_superusers)
        named = tuple(each.name for each in every if written and each.nonebot_name == written)
        return named or (written,)  # if no adapter lists the prefix, it is an adapter's name


def _folders(data_dir: Path) -> Iterator[tuple[Path, str]]:
    """Yield each folder that should contain an adapter, and the package name for its import."""
    for parent, package in (
        (builtin_folder("adapters"), builtin_package("adapters")),
        (data_dir / FOLDER, PACKAGE),
    ):
        if parent.is_dir():
            for folder in sorted(parent.iterdir()):
                if folder.is_dir() and not folder.name.startswith(("_", ".")):
                    yield folder, f"{package}.{folder.name}"


def _installed(names: set[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the package of each installed adapter in ``names``. None means all."""
    if names is None or names:
        for each in entry_points(group=ENTRY_POINTS):
            if names is None or each.name in names:
                yield each.name, each.value


def _place_of(name: str, package: str) -> Path:
    """Return the folder of an installed package without importing it. Raises `AdapterBroken`."""
    top, *below = package.split(".")
    try:
        found = find_spec(top)
    except (ImportError, ValueError):
        found = None
    if found is None or not found.submodule_search_locations:
        raise AdapterBroken(
            f"the installed adapter {name}: its entry point names {package!r}, and that is no "
            "package; expected one with an adapter.toml in it"
        )
    return Path(found.submodule_search_locations[0], *below)


def _add(
    found: dict[str, AdapterManifest],
    problems: list[str],
    folder: Path,
    package: str,
    *,
    by_name: str = "",
) -> None:
    try:
        manifests = read_manifests(folder, package)
    except ManifestError as error:
        problems.append(str(error))
        return
    for each in manifests:
        if by_name and each.name != by_name:
            continue  # the adapter's own entry point adds this adapter
        if each.name in found:
            problems.append(
                f"{folder}: the name {each.name} is taken by {found[each.name].folder}; take "
                "another one, or remove one of the two"
            )
        else:
            found[each.name] = each
    if by_name and by_name not in {each.name for each in manifests}:
        problems.append(f"{folder}: its entry point is {by_name}, its manifest has no [{by_name}]")
