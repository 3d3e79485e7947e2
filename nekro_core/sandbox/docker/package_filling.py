"""Fills a volume of a Docker engine with the Python packages that boxes share: sends the fetched
files to a container that unpacks and compiles them.

The container has the name of the volume. This name is the lock of the volume: while the container
exists, the engine makes no other container of the same name. So two bots do not fill a volume at
the same time. If a bot ends while it fills a volume, its container ends too, and the next attempt
begins anew.
"""

import asyncio
import io
import json
import logging
import socket
import tarfile
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

import anyio
import anyio.to_thread
import msgspec

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.docker import boot
from nekro_core.sandbox.docker.container import STARTUP, packages_mount
from nekro_core.sandbox.docker.engine import DockerApiError, DockerEngine
from nekro_core.sandbox.docker.images import GuestImage
from nekro_core.sandbox.docker.orphans import remove_container
from nekro_core.sandbox.docker.processes import start
from nekro_core.sandbox.docker.stream import STDOUT, StreamDemultiplexer
from nekro_core.sandbox.guest.guest_wire import ProtocolError
from nekro_core.sandbox.package_fetch import COMPLETE, NAMES, PLACE, PackagesUnavailable

_log = logging.getLogger(__name__)

_MODULES = (*NAMES, "matplotlib.pyplot", "matplotlib.backends.backend_agg")
"""The modules that are imported once in the container, as a test. The packages count as complete
only if this works."""
_FILL_S = 1800.0
"""Time limit for the whole work, in seconds. With an idle processor it takes about a minute."""
_SILENCE_S = 60.0
"""Time limit in seconds for sending one piece of data, and for the next dot of the program in the
container, which prints a dot each second."""
_WAIT_S = 1.0
"""Pause in seconds before the container's name is tried again, while another bot fills the same
volume."""
_PIECE = 1024 * 1024
_MEMORY = 1024 * 1024 * 1024
_TEMPORARY = 64 * 1024 * 1024
_PROCESSES = 32
_CONFLICT = 409
_ANSWER_BYTES = 64 * 1024
_TOLD_CHARS = 400


class _Answer(msgspec.Struct):
    error: str


async def fill_volume(
    engine: DockerEngine,
    image: GuestImage,
    volume: str,
    folder: Path,
    *,
    labels: Mapping[str, str],
    processors: float,
) -> None:
    """Fill ``volume`` with the packages in ``folder``. A container of ``image`` compiles them, with
    the Python of the image; it may keep ``processors`` processors busy, and gets ``labels``, by
    which it can be found later. If the volume is complete already, its files are left as they are.

    Raises `PackagesUnavailable` if the packages do not work in the container, `BackendUnavailable`,
    and `OSError`, also if a time limit is reached.
    """
    with tempfile.TemporaryFile(dir=folder.parent) as archive, anyio.fail_after(_FILL_S):
        entries = await anyio.to_thread.run_sync(pack_packages, folder, archive)
        archive.seek(0)
        told = {"place": PLACE, "entries": entries, "modules": _MODULES, "shown_last": NAMES}
        config = _config(image, volume, labels, processors)
        async with _container(engine, config, volume) as sock:
            # If the program has ended early, its answer says why.
            with suppress(BrokenPipeError, ConnectionResetError):
                program = boot.program("fill_packages")
                await _send(sock, boot.pieces(program, json.dumps(told).encode()))
                while piece := await anyio.to_thread.run_sync(archive.read, _PIECE):
                    await _send(sock, piece)
            error = await _read_error(sock)
    if error:
        raise PackagesUnavailable(
            f"the packages of boxes do not work with Python {image.version[0]}.{image.version[1]} "
            f"of the image {image.image_id}: {error[:_TOLD_CHARS]}; make the image again with "
            "`nekro sandbox image`, or set NEKRO_SANDBOX__PACKAGES=false"
        )


def pack_packages(folder: Path, target: IO[bytes]) -> int:
    """Write the files below ``folder`` as a tar archive. Add the module ``sitecustomize.py``, which
    adds the packages to the path of Python programs. Blocks for some seconds. Returns the number of
    files in the archive."""
    count = 0
    with tarfile.open(
        fileobj=target, mode="w", format=tarfile.GNU_FORMAT, dereference=True
    ) as archive:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_file() and name != COMPLETE:
                archive.add(path, arcname=name)
                count += 1
        program = boot.program("sitecustomize")
        entry = tarfile.TarInfo(f"{Path(STARTUP).name}/sitecustomize.py")
        entry.size = len(program)
        archive.addfile(entry, io.BytesIO(program))
    return count + 1


def _config(
    image: GuestImage, volume: str, labels: Mapping[str, str], processors: float
) -> dict[str, Any]:
    """Return the engine's configuration of the container that fills the volume. The container is
    confined as that of a box, but its user is root without capabilities, because the volume belongs
    to root."""
    return {
        "Image": image.image_id,
        "Entrypoint": boot.command(image.python),
        "Cmd": [],
        "User": "0:0",
        "WorkingDir": "/",
        "Env": ["HOME=/tmp", "MPLCONFIGDIR=/tmp", "OPENBLAS_NUM_THREADS=1"],
        "Labels": dict(labels),
        "OpenStdin": True,
        "StdinOnce": True,
        **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "AutoRemove": True,
            "NetworkMode": "none",
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": {"Type": "none", "Config": {}},
            "PidsLimit": _PROCESSES,
            "Memory": _MEMORY,
            "MemorySwap": _MEMORY,
            "NanoCpus": int(processors * 1e9),
            "Tmpfs": {"/tmp": f"rw,nosuid,nodev,size={_TEMPORARY}"},  # noqa: S108 - its own
            "Mounts": [packages_mount(volume, read_only=False)],
        },
    }


@asynccontextmanager
async def _container(
    engine: DockerEngine, config: dict[str, Any], name: str
) -> AsyncIterator[socket.socket]:
    """Start the container as soon as no other container has its name. Yields the stream that is
    attached to the container's input and output. At the end the container is removed."""
    while True:
        try:
            # The start is shielded from cancellation, as in `ContainerLauncher`: otherwise the id
            # of the new container could stay unknown, and the container could not be removed.
            with anyio.CancelScope(shield=True):
                started = await engine.ask(start, engine.client, config, name)
            break
        except DockerApiError as error:
            if error.status != _CONFLICT:
                raise
        await anyio.sleep(_WAIT_S)
    try:
        yield started.sock
    finally:
        started.sock.close()
        with anyio.CancelScope(shield=True):
            try:
                await remove_container(engine, started.container)
            except BackendUnavailable as error:
                _log.warning("a container may remain until the next start of the bot: %s", error)


async def _send(sock: socket.socket, data: bytes) -> None:
    with anyio.fail_after(_SILENCE_S):
        await asyncio.get_running_loop().sock_sendall(sock, data)


async def _read_error(sock: socket.socket) -> str:
    """Read the output of the program in the container: dots, and then a line of JSON. Return the
    error that this line contains; empty if there is none."""
    loop = asyncio.get_running_loop()
    printed, complaint = bytearray(), bytearray()

    def take(stream: int, data: memoryview) -> None:
        (printed if stream == STDOUT else complaint).extend(data)

    blocks = StreamDemultiplexer(take)
    while not printed.endswith(b"\n"):
        with anyio.fail_after(_SILENCE_S):
            piece = await loop.sock_recv(sock, 65536)
        if not piece or len(printed) + len(complaint) > _ANSWER_BYTES:
            lines = complaint.decode("utf-8", "replace").strip().splitlines()
            return f"the program that unpacks them ended: {lines[-1] if lines else 'no reason'}"
        try:
            blocks.feed(memoryview(piece))
        except ProtocolError as error:
            raise BackendUnavailable(f"the engine sent {error}") from error
    try:
        return msgspec.json.decode(bytes(printed).lstrip(b"."), type=_Answer).error
    except msgspec.MsgspecError as error:
        return f"the program that unpacks them sent a wrong answer: {error}"
