"""Implements ``nekro adapter ACTION``. Each action returns an exit status."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from nekro_core.app.adapter_directory import FOLDER, PACKAGE, AdapterBroken, AdapterDirectory
from nekro_core.app.adapters import check_adapter
from nekro_core.app.platform_control import read_enabled
from nekro_core.app.settings import Settings
from nekro_core.cli.new_folder import NewRefused, require_name, write_folder
from nekro_core.delivery.adapter_manifest import AdapterManifest, ManifestError, read_manifests

FILES: Mapping[str, str] = MappingProxyType(
    {
        "adapter.toml": "adapter.toml.txt",
        "__init__.py": "init.py.txt",
        "adapter.py": "adapter.py.txt",
        "tests/test_$name.py": "test_adapter.py.txt",
        "README.md": "README.md.txt",
        "pytest.ini": "pytest.ini.txt",
    }
)
"""The files that ``nekro adapter new`` writes, and the template of each file."""


async def _list(_: argparse.Namespace) -> int:
    settings = Settings.load()
    data = settings.nekro_data_dir.absolute()
    wanted = (*settings.nekro_platforms, *read_enabled(data))
    adapters = AdapterDirectory.find(data, installed=True)
    for each in adapters.manifests.values():
        state = "always" if each.always else "on" if each.name in wanted else "off"
        print(f"{state:7} {each.name:12} {each.title}{_abilities(each)}  {each.folder}")
    problems = [*adapters.problems, *adapters.unknown(wanted)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


async def _new(options: argparse.Namespace) -> int:
    name = options.name
    folder = Path(options.folder) if options.folder else Settings.load().nekro_data_dir / FOLDER
    known = {
        "name": name,
        "title": name.replace("_", " ").capitalize(),
        "class_name": "".join(part.capitalize() for part in name.split("_")),
        "setting": name.upper(),
    }
    try:
        require_name("name", name, lower_case=True)
        written = write_folder(folder, name, FILES, "nekro_core.cli.adapter_kit", known)
    except (NewRefused, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for path in written:
        print(path)
    place = folder / name
    print(f"\nNow: nekro adapter check {place}; python -m pytest {place}")
    if not options.folder:
        print(
            f'Then: NEKRO_PLATFORMS=["{name}"] and {name.upper()}_ADDRESS=127.0.0.1:4000 in .env, '
            "and nekro run"
        )
    return 0


async def _check(options: argparse.Namespace) -> int:
    try:
        manifests = _manifests_at(Path(options.path))
    except ManifestError as error:
        print(error, file=sys.stderr)
        return 1
    broken = 0
    for manifest in manifests:
        for line in _described(manifest):
            print(line)
        try:
            check_adapter(manifest)
        except AdapterBroken as error:
            broken += 1
            print(f"  {error}", file=sys.stderr)
    if not broken:
        print(f"nothing to mend; now judge it by the contract: python -m pytest {options.path}")
    return 1 if broken else 0


def _manifests_at(folder: Path) -> list[AdapterManifest]:
    place = folder.resolve()
    return read_manifests(place, f"{PACKAGE}.{place.name}")


def _described(manifest: AdapterManifest) -> Iterator[str]:
    yield f"{manifest.name}: {manifest.title}{_abilities(manifest)}"
    if manifest.always:
        yield "  it runs in every bot that has this folder"
    else:
        yield f'  it runs where NEKRO_PLATFORMS names it: ["{manifest.name}"]'
    yield f"  its settings begin with {', '.join(each.upper() for each in manifest.settings)}"
    if manifest.extra:
        yield f"  it needs: pip install '{manifest.extra}'"
    if manifest.eraser:
        yield f"  it forgets a person by {manifest.eraser}"
    else:
        yield "  it keeps nothing of people in files (no eraser)"


def _abilities(manifest: AdapterManifest) -> str:
    return f" ({', '.join(sorted(manifest.capabilities))})" if manifest.capabilities else ""


ACTIONS: Mapping[str, Callable[[argparse.Namespace], Awaitable[int]]] = {
    "check": _check,
    "list": _list,
    "new": _new,
}
"""Maps the name of each action on the command line to its function. Each may raise
`SettingsError`."""


async def run(options: argparse.Namespace) -> int:
    """Carry out the action that the command line names. Return the exit status. May raise
    `SettingsError`."""
    return await ACTIONS[options.action](options)
