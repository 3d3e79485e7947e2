"""The command ``nekro``."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence

import anyio

from nekro_core import __version__
from nekro_core.doctor import examine
from nekro_core.gateway import run
from nekro_core.llm.embedded import WeightsError, ensure_weights
from nekro_core.logs import Redactor, kept_secrets
from nekro_core.plugin import UnknownPlugin, read_list, switch
from nekro_core.progress import ProgressLine
from nekro_core.settings import Settings, SettingsError
from nekro_core.terminal import talk

Command = Callable[[argparse.Namespace], Awaitable[int]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="nekro", description="A chat bot that answers in Python.")
    parser.add_argument("--version", action="version", version=f"nekro-core {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("run", help="start the bot")
    chat = commands.add_parser("chat", help="talk to the bot in this terminal")
    chat.add_argument(
        "--room", default="", help="a group room of the web chat; without it in private"
    )
    chat.add_argument("--name", default="you", help="who is speaking")
    commands.add_parser("doctor", help="what works here, what does not, how to mend it")
    commands.add_parser("fetch", help="download the embedded model's weights now")
    plugin = commands.add_parser("plugin", help="list plugins, switch them on and off")
    plugin.add_argument("action", choices=("list", "on", "off"))
    plugin.add_argument("name", nargs="?", default="", help="its key or item, as the list shows")
    options = parser.parse_args(arguments)
    if options.command == "run":
        return run()
    commands_by_name: dict[str, Command] = {
        "chat": _chat,
        "doctor": _doctor,
        "fetch": _fetch,
        "plugin": _plugin,
    }
    try:
        return anyio.run(commands_by_name[options.command], options)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


async def _chat(options: argparse.Namespace) -> int:
    return await talk(Settings.load(), room=options.room, speaker=options.name)


async def _doctor(_: argparse.Namespace) -> int:
    settings = Settings.load()
    # What is shown here is pasted into bug reports, and a server's error may quote a key.
    out = Redactor(sys.stdout)
    out.hide([*settings.secrets(), *kept_secrets(settings.nekro_data_dir)])
    marks = {True: "ok  ", False: "FAIL", None: "    "}
    bad = 0
    async for finding in examine(settings):
        print(f"{marks[finding.ok]} {finding.area:9} {finding.seen}", file=out, flush=True)
        if finding.ok is False:
            bad += 1
            for line in finding.remedy.splitlines():
                print(f"{'':15}{line}", file=out, flush=True)
    print("everything works" if not bad else f"{bad} to mend")
    return min(bad, 1)


async def _fetch(_: argparse.Namespace) -> int:
    settings = Settings.load()
    line = ProgressLine(sys.stderr)
    try:
        path = await ensure_weights(
            settings.nekro_embedded, settings.nekro_data_dir / "models", line.report
        )
    except WeightsError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        line.end()
    print(path)
    return 0


async def _plugin(options: argparse.Namespace) -> int:
    data_dir = Settings.load().nekro_data_dir
    if options.action == "list":
        for each in read_list(data_dir):
            print(f"{each.state:9} {each.key or each.item} {each.version}  {', '.join(each.tools)}")
            for problem in each.problems:
                print(f"{'':10}{problem}")
        return 0
    try:
        item = switch(data_dir, options.name, wanted=options.action == "on")
    except UnknownPlugin as error:
        print(error.args[0], file=sys.stderr)
        return 1
    print(f"{item} is {options.action}; a bot that runs follows at once")
    return 0
