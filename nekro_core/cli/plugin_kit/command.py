"""Implements ``nekro plugin ACTION``. Each action returns an exit status."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import anyio.to_thread

from nekro_core.app.settings import Settings
from nekro_core.cli.new_folder import NewRefused
from nekro_core.cli.plugin_kit.check_command import check_command
from nekro_core.cli.plugin_kit.new import write_new
from nekro_core.compat.maibot.plugin.preflight import manifest_problems
from nekro_core.plugins.host.links import LOCAL_FOLDER, NoPlugin
from nekro_core.plugins.host.listing import UnknownPlugin
from nekro_core.plugins.host.switches import read_list, switch_plugin
from nekro_core.plugins.installation.bot_follower import InstallRefused
from nekro_core.plugins.installation.files import FilesRefused
from nekro_core.plugins.installation.inspection import inspect_plugin
from nekro_core.plugins.installation.install import Installer
from nekro_core.plugins.installation.installed import (
    InstallRecords,
    lying_plugins,
    recover_interrupted,
)
from nekro_core.plugins.installation.own_writes import changes_of_others
from nekro_core.plugins.installation.report import printable, state_text, unseen_text
from nekro_core.plugins.installation.sources import SourceRefused, parse
from nekro_core.plugins.packages import InvalidRequirements, PackagesRefused

_MOST_CHANGES = 10


async def _list(_: argparse.Namespace) -> int:
    data = Settings.load().nekro_data_dir.absolute()
    recover_interrupted(data)
    listed, records = read_list(data), InstallRecords(data)
    installed = records.all()
    unseen = lying_plugins(data, {*installed, *(each.item for each in listed)})
    if not listed and not installed and not unseen:
        print("there is no plugin here, and no bot has run here yet", file=sys.stderr)
    for each in listed:
        if each.item not in installed and _is_gone(data, each.item):
            continue
        for line in state_text(each):
            print(line)
        _print_origin(records, each.item)
    for item in sorted(installed.keys() - {each.item for each in listed}):
        print(f"{'new':9} {installed[item].key or item} {installed[item].version}")
        _print_origin(records, item)
    for item, path in unseen.items():
        for line in unseen_text(item, inspect_plugin(path)):
            print(line)
    return 0


def _is_gone(data: Path, item: str) -> bool:
    """Return True if the files of a plugin were removed after a bot wrote the list of plugins."""
    source, _, name = item.partition("/")
    folder = data / LOCAL_FOLDER
    return source == "local" and not ((folder / name).exists() or (folder / f"{name}.py").exists())


def _print_origin(records: InstallRecords, item: str) -> None:
    if record := records.all().get(item):
        at = f" at {record.commit[:12]}" if record.commit else ""
        print(f"{'':10}from {record.source}{at}")
        for line in changes_of_others(records.changed_since(item))[:_MOST_CHANGES]:
            print(f"{'':10}since it was installed: {printable(line)}")


def _switching(*, wanted: bool) -> Callable[[argparse.Namespace], Awaitable[int]]:
    async def act(options: argparse.Namespace) -> int:
        try:
            item = switch_plugin(Settings.load().nekro_data_dir, options.name, wanted=wanted)
        except UnknownPlugin as error:
            print(error.args[0], file=sys.stderr)
            return 1
        print(f"{item} is {'on' if wanted else 'off'}; a bot that runs follows at once")
        return 0

    return act


async def _new(options: argparse.Namespace) -> int:
    folder = Path(options.folder)
    try:
        written = write_new(folder, options.name, options.author)
    except (NewRefused, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for path in written:
        print(path)
    place = folder / options.name
    print(f"\nNow: nekro plugin check {place}; python -m pytest {place}; nekro plugin run {place}")
    return 0


async def _run(options: argparse.Namespace) -> int:
    from nekro_core.cli.plugin_kit.run import run_plugin  # noqa: PLC0415 - imports the web client

    path = Path(options.path)
    try:
        return await run_plugin(Settings.load(), path, lines=sys.stdin, out=sys.stdout)
    except (NoPlugin, InvalidRequirements, PackagesRefused, SourceRefused) as error:
        print(error, file=sys.stderr)
        return 1


def _installer(options: argparse.Namespace) -> Installer:
    settings = Settings.load()
    data = settings.nekro_data_dir.absolute()
    shelf = settings.nekro_plugin.shelf(data)

    def ask(question: str) -> bool:
        if options.yes:
            return True
        print(f"{question} [y/N] ", end="", flush=True)
        return sys.stdin.readline().strip().casefold() in ("y", "yes")

    strict = settings.nekro_plugin.strict_host_range
    return Installer(
        data_dir=data,
        shelf=shelf,
        ask=ask,
        say=print,
        settings=settings.nekro_plugin,
        preflight=partial(manifest_problems, strict_host_range=strict),
    )


async def _changing(change: Callable[[], str], done: str) -> int:
    """Run a change of the plugins in a thread, because it waits for pip, for git and for the
    operator's answers. Returns an exit status."""
    try:
        item = await anyio.to_thread.run_sync(change)
    except (
        FilesRefused, InstallRefused, InvalidRequirements, OSError, PackagesRefused, SourceRefused
    ) as error:  # fmt: skip
        for line in str(error).splitlines():
            print(printable(line), file=sys.stderr)
        return 1
    print(f"{item} {done}" if item else "nothing was changed")
    return 0


async def _install(options: argparse.Namespace) -> int:
    installer = _installer(options)
    done = "is installed; a bot that runs loads it at once"
    return await _changing(
        lambda: installer.install(parse(options.source), force=options.force), done
    )


async def _update(options: argparse.Namespace) -> int:
    installer = _installer(options)
    change = partial(installer.update, options.name, force=options.force)
    return await _changing(change, "is updated")


async def _rollback(options: argparse.Namespace) -> int:
    installer = _installer(options)
    change = partial(installer.roll_back, options.name, options.to)
    return await _changing(change, "is the old version again")


async def _remove(options: argparse.Namespace) -> int:
    installer = _installer(options)
    return await _changing(partial(installer.remove, options.name, data=options.data), "is removed")


ACTIONS: Mapping[str, Callable[[argparse.Namespace], Awaitable[int]]] = {
    "check": check_command,
    "disable": _switching(wanted=False),
    "enable": _switching(wanted=True),
    "install": _install,
    "list": _list,
    "new": _new,
    "off": _switching(wanted=False),
    "on": _switching(wanted=True),
    "remove": _remove,
    "rollback": _rollback,
    "run": _run,
    "update": _update,
}
"""Maps the name of each action on the command line to its function. Each may raise
`SettingsError`."""


async def run(options: argparse.Namespace) -> int:
    """Carry out the action that the command line names. Return the exit status. May raise
    `SettingsError`."""
    return await ACTIONS[options.action](options)
