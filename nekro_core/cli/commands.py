"""Maps the commands of ``nekro`` to functions. ``run`` is not here but in
`nekro_core.app.server`."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from nekro_core.app.health import examine
from nekro_core.app.instance import find_running_instance
from nekro_core.app.logs import RedactingStream, stored_secrets
from nekro_core.app.progress import ProgressLine
from nekro_core.app.settings import Settings
from nekro_core.cli import accounts, backup, operator_calls, outbox, restart
from nekro_core.cli import settings as settings_commands
from nekro_core.cli.adapter_kit.command import ACTIONS as ADAPTER_ACTIONS
from nekro_core.cli.chat import talk
from nekro_core.cli.plugin_kit.command import ACTIONS
from nekro_core.llm.embedded import WeightsError, ensure_weights
from nekro_core.sandbox.box import SandboxError
from nekro_core.tools.mcp_client import server_status_lines


async def _chat(options: argparse.Namespace) -> int:
    settings = Settings.load()
    alone = not find_running_instance(settings.nekro_data_dir)
    # The bot of this conversation would refuse the questions while it downloads its model.
    if alone and not settings.nekro_llm.configured and await _ensure_weights(settings) is None:
        return 1
    return await talk(settings, room=options.room, speaker=options.name)


async def _doctor(_: argparse.Namespace) -> int:
    settings = Settings.load()
    # Secrets are removed, because people paste this output into bug reports, and an error from a
    # server may contain a key.
    out = RedactingStream(sys.stdout)
    out.add_secrets([*settings.secrets(), *stored_secrets(settings.nekro_data_dir)])
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
    path = await _ensure_weights(Settings.load())
    if path is None:
        return 1
    print(path)
    return 0


async def _ensure_weights(settings: Settings) -> Path | None:
    """Download the weights of the embedded model if they are missing. Return None, and say why, if
    this fails."""
    line = ProgressLine(sys.stderr)
    try:
        return await ensure_weights(
            settings.nekro_embedded, settings.nekro_data_dir / "models", line.report
        )
    except WeightsError as error:
        print(error, file=sys.stderr)
        return None
    finally:
        line.end()


async def _plugin(options: argparse.Namespace) -> int:
    return await ACTIONS[options.action](options)


async def _adapter(options: argparse.Namespace) -> int:
    return await ADAPTER_ACTIONS[options.action](options)


async def _mcp(options: argparse.Namespace) -> int:
    if options.action == "servers":
        print(server_status_lines(Settings.load().nekro_data_dir))
        return 0
    if find_spec("mcp") is None:
        print("nekro mcp needs the package mcp: pip install 'nekro-core[mcp]'", file=sys.stderr)
        return 1
    from nekro_core.cli.mcp_server.command import serve_tools  # noqa: PLC0415 - imports `mcp`, an extra

    return await serve_tools(options)


async def _sandbox(options: argparse.Namespace) -> int:
    from nekro_core.sandbox.docker import build  # noqa: PLC0415 - its packages are slow to import
    from nekro_core.sandbox.docker.engine import DockerEngine  # noqa: PLC0415 - slow as well

    engine = None
    try:
        engine = await DockerEngine.connect(Settings.load().nekro_sandbox.docker_host, build=True)
        if options.base:
            image = await build.build_on(engine, options.name, options.base, print)
        elif options.root:
            image = await build.import_folder(engine, options.name, Path(options.root), print)
        elif options.debian:
            image = await build.import_debian(engine, options.name, print)
        elif options.this_machine or options.name != "python":
            image = await build.import_this_machine(engine, options.name, print)
        else:
            image = await build.make_default(engine, print)
    except SandboxError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if engine is not None:
            engine.close()
    version = ".".join(map(str, image.version))
    print(f"boxes can be made from {options.name!r} now: Python {version}, {image.image_id}")
    return 0


COMMANDS: Mapping[str, Callable[[argparse.Namespace], Awaitable[int]]] = {
    "accounts": accounts.run,
    "adapter": _adapter,
    "backup": backup.backup,
    "restore": backup.restore,
    "outbox": outbox.run,
    "chat": _chat,
    "doctor": _doctor,
    "fetch": _fetch,
    "get": settings_commands.get,
    "mcp": _mcp,
    "operator": operator_calls.run,
    "plugin": _plugin,
    "restart": restart.restart,
    "sandbox": _sandbox,
    "set": settings_commands.change,
}
"""The function of each command. It takes the parsed arguments, returns an exit status, and may
raise `SettingsError`."""
