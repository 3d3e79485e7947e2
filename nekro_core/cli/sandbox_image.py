"""Implements ``nekro sandbox image``: makes an image for boxes in containers."""

import argparse
import sys
from pathlib import Path

from nekro_core.app.settings import Settings
from nekro_core.sandbox.box import SandboxError
from nekro_core.sandbox.docker import build
from nekro_core.sandbox.docker.engine import DockerEngine


async def run(options: argparse.Namespace) -> int:
    """Make an image. Return the exit status."""
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
