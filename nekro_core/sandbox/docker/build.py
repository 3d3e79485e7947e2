"""Makes images for boxes from an image of a registry, from a folder, or from this machine's
files."""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.docker import root_files
from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.docker.images import DEFAULT, OWN, GuestImage, ImageResolver

BASE = "python:3.12-slim"
"""The image from which the default image is made, unless the operator chooses another base."""

Report = Callable[[str], None]

_DOCKERFILE = Path(__file__).with_name("Dockerfile")
_DEBOOTSTRAP_S = 1800
_SYSTEM_PYTHON = "/usr/bin/python3"


async def build_on(engine: DockerEngine, name: str, base: str, report: Report) -> GuestImage:
    """Make the image ``name`` from ``base``, which is pulled if the engine does not have it.

    Raises `BackendUnavailable`, and `ImageUnavailable` if the Python of ``base`` cannot be used.
    """
    report(f"building on {base}")
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        archive.add(_DOCKERFILE, arcname="Dockerfile")
    context.seek(0)

    def build() -> None:
        said = engine.client.build(
            fileobj=context,
            custom_context=True,
            buildargs={"BASE": base},
            tag=f"{OWN}{name}",
            rm=True,
            forcerm=True,
            network_mode="none",
            decode=True,
        )
        error = ""
        # The lines are read to the end even after an error, because that closes the connection.
        for line in said:
            error = error or str(line.get("error", ""))
            if text := str(line.get("stream", "")).strip():
                report(text)
        if error:
            raise BackendUnavailable(f"the image could not be built: {error}")

    await engine.ask(build)
    return await _tried(engine, name)


async def import_folder(engine: DockerEngine, name: str, root: Path, report: Report) -> GuestImage:
    """Make the image ``name`` from the root file system in ``root``. Raises the same errors as
    `build_on`."""
    report(f"packing {root}")
    return await _import(engine, name, lambda target: root_files.pack_folder(root, target))


async def import_debian(engine: DockerEngine, name: str, report: Report) -> GuestImage:
    """Make the image ``name`` from a Debian that ``debootstrap`` installs into a temporary folder.
    Raises the same errors as `build_on`."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise BackendUnavailable("debootstrap is not installed, or this user is not root")
    with tempfile.TemporaryDirectory(prefix="nekro-image-") as folder:
        suite = _this_release()
        report(f"laying out Debian {suite} with debootstrap (about a minute)")
        await anyio.to_thread.run_sync(_debootstrap, suite, folder)
        return await import_folder(engine, name, Path(folder), report)


async def import_this_machine(engine: DockerEngine, name: str, report: Report) -> GuestImage:
    """Make the image ``name`` from the Python and other programs of this machine. Raises the same
    errors as `build_on`."""
    report(f"packing {_SYSTEM_PYTHON} of this machine and what it needs")
    return await _import(
        engine, name, lambda target: root_files.pack_this_machine(_SYSTEM_PYTHON, target)
    )


async def make_default(engine: DockerEngine, report: Report) -> GuestImage:
    """Make the default image of boxes. Tries three ways, the best first.

    If all fail, raises `BackendUnavailable` with the reasons.
    """
    reasons = []
    for make in (_from_registry, import_debian, import_this_machine):
        try:
            return await make(engine, DEFAULT, report)
        except BackendUnavailable as error:
            report(str(error))
            reasons.append(str(error))
    raise BackendUnavailable("; ".join(reasons))


async def _from_registry(engine: DockerEngine, name: str, report: Report) -> GuestImage:
    return await build_on(engine, name, BASE, report)


async def _import(engine: DockerEngine, name: str, pack: Callable[[BinaryIO], None]) -> GuestImage:
    repository, _, tag = name.partition(":")
    with tempfile.TemporaryFile() as archive:
        try:
            await anyio.to_thread.run_sync(pack, archive)
        except (OSError, subprocess.SubprocessError, tarfile.TarError) as error:
            raise BackendUnavailable(f"a root file system could not be packed: {error}") from error
        archive.seek(0)
        await engine.ask(
            engine.client.import_image,
            archive,
            repository=f"{OWN}{repository}",
            tag=tag or "latest",
        )
    return await _tried(engine, name)


async def _tried(engine: DockerEngine, name: str) -> GuestImage:
    """Check the Python of the new image. The default image also gets a name with its Python
    version."""
    image = await ImageResolver(engine, {}, {}).choose(name)
    if name == DEFAULT:
        version = ".".join(map(str, image.version[:2]))
        await engine.ask(engine.client.tag, image.image_id, f"{OWN}{DEFAULT}", version)
    return image


def _this_release() -> str:
    """Return the name of this machine's Debian release, or ``stable`` if this machine does not run
    Debian."""
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        lines = []
    told = dict(line.partition("=")[::2] for line in lines)
    name = told.get("VERSION_CODENAME", "").strip('"')
    return name if told.get("ID", "").strip('"') == "debian" and name else "stable"


def _debootstrap(suite: str, folder: str) -> None:
    command = ["debootstrap", "--variant=minbase", "--include=python3", suite, folder]
    try:
        subprocess.run(  # noqa: S603 - no shell
            command, check=True, capture_output=True, text=True, timeout=_DEBOOTSTRAP_S
        )
    except subprocess.SubprocessError as error:
        said = getattr(error, "stdout", "") or str(error)
        last = said.strip().splitlines()[-1]
        raise BackendUnavailable(f"debootstrap failed: {last}") from error
