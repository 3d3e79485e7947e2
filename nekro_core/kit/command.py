"""What ``nekro plugin ACTION`` does. Each action gives an exit status."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from nekro_core.kit.new import NewRefused, write_new
from nekro_core.plugin import UnknownPlugin, read_list, switch
from nekro_core.settings import Settings


async def _list(_: argparse.Namespace) -> int:
    listed = read_list(Settings.load().nekro_data_dir)
    if not listed:
        print("no bot has run here yet: start it once, then it knows them", file=sys.stderr)
    for each in listed:
        print(f"{each.state:9} {each.key or each.item} {each.version}  {', '.join(each.tools)}")
        for problem in each.problems:
            print(f"{'':10}{problem}")
    return 0


def _switching(*, wanted: bool) -> Callable[[argparse.Namespace], Awaitable[int]]:
    async def act(options: argparse.Namespace) -> int:
        try:
            item = switch(Settings.load().nekro_data_dir, options.name, wanted=wanted)
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
    except NewRefused as error:
        print(error, file=sys.stderr)
        return 1
    for path in written:
        print(path)
    place = folder / options.name
    print(f"\nNow: nekro plugin check {place}; python -m pytest {place}; nekro plugin run {place}")
    return 0


async def _check(options: argparse.Namespace) -> int:
    from nekro_core.kit.check import check  # noqa: PLC0415 - the whole bot: a second
    from nekro_core.testing import NoPlugin  # noqa: PLC0415 - as above

    try:
        return await check(Path(options.path), sys.stdout)
    except NoPlugin as error:
        print(error, file=sys.stderr)
        return 1


ACTIONS: Mapping[str, Callable[[argparse.Namespace], Awaitable[int]]] = {
    "check": _check,
    "disable": _switching(wanted=False),
    "enable": _switching(wanted=True),
    "list": _list,
    "new": _new,
    "off": _switching(wanted=False),
    "on": _switching(wanted=True),
}
"""By the word on the command line; each may raise `SettingsError`."""
