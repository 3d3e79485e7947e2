"""Finds the image that a name means, and the Python in it.

A box may be made from images that ``nekro sandbox image`` made (``python`` is the default), and
from images that the operator named in ``NEKRO_SANDBOX__IMAGES``. Other images of the engine are
refused: the requested name can come from a language model, and an image may have secrets in its
files. A request for a box never pulls an image.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from nekro_core.sandbox.box import ImageUnavailable
from nekro_core.sandbox.docker import boot
from nekro_core.sandbox.docker.engine import DockerApiError, DockerEngine
from nekro_core.sandbox.docker.relay import close_given, socket_of
from nekro_core.sandbox.docker.stream import STDOUT, StreamDemultiplexer

OWN = "nekro-box/"
"""Prefix of the names of images that were made for boxes."""
DEFAULT = "python"

_OLDEST = (3, 9)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ANSWER_BYTES = 8 * 1024 * 1024
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestImage:
    """An image whose Python has been checked."""

    image_id: str
    python: str
    version: tuple[int, int, int]
    modules: bytes
    """The supervisor's modules, compiled by and for this Python. The host only stores and sends
    these bytes. It never unmarshals them."""
    path: str
    environment: tuple[str, ...]
    """The names of the variables that the image sets."""
    packages: tuple[str, ...]
    """The folders of the packages that the image itself has."""
    suffix: str
    """How the names of compiled modules end that this Python loads:
    ``.cpython-311-x86_64-linux-gnu.so``. It names the version, the processor and the system."""
    glibc: tuple[int, ...]
    """The version of the C library; empty if it is another library than glibc."""
    volumes: tuple[str, ...]
    """The folders in the image for which the engine would make volumes."""
    has_shared: bool
    """Whether the image has ``/app/shared``. If not, a box gets it as a link."""


class ImageResolver:
    """The images of one engine. Each `GuestImage` is cached by the image's id. ``named`` has the
    images in the settings, ``labels`` the labels of the containers that this object makes."""

    def __init__(
        self, engine: DockerEngine, named: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        self._engine = engine
        self._named = frozenset(named.values())
        self._labels = labels
        self._known: dict[str, GuestImage] = {}
        self._trying = anyio.Lock()

    async def names(self) -> tuple[str, ...]:
        """See `Backend.images`."""
        found = {DEFAULT}
        images = await self._engine.ask(self._engine.client.images)
        for tag in (tag for image in images for tag in image.get("RepoTags") or ()):
            name = tag.removesuffix(":latest")
            if name.startswith(OWN):
                found.add(name.removeprefix(OWN))
            found |= {name, tag} & self._named
        return tuple(sorted(found))

    async def choose(self, name: str) -> GuestImage:
        """Choose the image of this name. Raises `ImageUnavailable` and `BackendUnavailable`."""
        reference = name if name in self._named else OWN + name
        try:
            described = await self._engine.ask(self._engine.client.inspect_image, reference)
        except DockerApiError as error:
            # The engine answers 400 to an invalid name.
            if error.status != _NOT_FOUND and error.status // 100 != 4:
                raise
            reason = f"make it with: nekro sandbox image {name}" if name == DEFAULT else ""
            raise ImageUnavailable(name, await self._others(name), reason) from error
        async with self._trying:
            if described["Id"] not in self._known:
                self._known[described["Id"]] = await self._try(name, described)
        return self._known[described["Id"]]

    async def _others(self, name: str) -> tuple[str, ...]:
        return tuple(other for other in await self.names() if other != name)

    async def _try(self, name: str, described: dict[str, Any]) -> GuestImage:
        if described.get("Os", "linux") != "linux":
            raise ImageUnavailable(name, await self._others(name), "it is not an image for Linux")
        config = described.get("Config") or {}
        variables = dict(item.partition("=")[::2] for item in config.get("Env") or ())
        try:
            answer = await self._engine.ask(self._ask_inside, described["Id"])
            line, _, modules = answer.partition(b"\n")
            found = json.loads(line)
        except DockerApiError as error:
            if "python3" not in str(error):
                raise
            reason = "it has no python3, and boxes need Python 3.9 or later"
            raise ImageUnavailable(name, await self._others(name), reason) from error
        except ValueError as error:
            reason = "its python3 does not start"
            raise ImageUnavailable(name, await self._others(name), reason) from error
        version = (found["version"][0], found["version"][1], found["version"][2])
        if version < _OLDEST:
            reason = f"its Python is {version[0]}.{version[1]}, and boxes need 3.9 or later"
            raise ImageUnavailable(name, await self._others(name), reason)
        return GuestImage(
            image_id=described["Id"],
            python=found["executable"],
            version=version,
            modules=modules,
            path=variables.get("PATH") or _PATH,
            environment=tuple(variables),
            packages=tuple(found["packages"]),
            suffix=found["suffix"],
            glibc=tuple(int(part) for part in found["glibc"].split(".") if part.isdigit()),
            volumes=tuple(config.get("Volumes") or ()),
            has_shared=found["shared"],
        )

    def _ask_inside(self, image_id: str) -> bytes:
        """Run the image's Python once in a confined container, and return what it prints. The
        container has no memory limit."""
        client = self._engine.client
        made = client.create_container_from_config(  # type: ignore[no-untyped-call]
            {
                "Image": image_id,
                "Entrypoint": boot.command("python3"),
                "Cmd": [],
                "User": "65534:65534",
                "WorkingDir": "/",
                "Labels": dict(self._labels),
                "OpenStdin": True,
                "StdinOnce": True,
                **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
                "Healthcheck": {"Test": ["NONE"]},
                "HostConfig": {
                    "NetworkMode": "none",
                    "ReadonlyRootfs": True,
                    "CapDrop": ["ALL"],
                    "SecurityOpt": ["no-new-privileges"],
                    "LogConfig": {"Type": "none", "Config": {}},
                    "PidsLimit": 16,
                },
            }
        )
        try:
            given = client.attach_socket(
                made["Id"], params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            )
            try:
                client.start(made["Id"])
                socket_of(given).sendall(boot.compile_guest())
                return read_answer(socket_of(given), _is_whole)
            finally:
                close_given(given)
        finally:
            client.remove_container(made["Id"], force=True, v=True)


def _is_whole(answer: bytes | bytearray) -> bool:
    """Return True if the answer has as many bytes of modules as its first line says. Raises
    ValueError."""
    line, ended, modules = answer.partition(b"\n")
    return bool(ended) and len(modules) >= json.loads(line)["size"]


def read_answer(sock: Any, is_whole: Callable[[bytearray], bool]) -> bytes:
    """Read what a program in a container prints, until ``is_whole`` returns True for it or it has
    about 8 MB. Blocks, at most for the socket's timeout at each read.

    The program waits until the host closes its input. If the program ended earlier, the engine
    would drop output that it cannot send within two seconds. On a busy machine that happens.
    """
    printed = bytearray()

    def take(stream: int, data: memoryview) -> None:
        if stream == STDOUT:
            printed.extend(data)

    blocks = StreamDemultiplexer(take)
    while len(printed) < _ANSWER_BYTES and not is_whole(printed):
        piece = sock.recv(65536)
        if not piece:
            break
        blocks.feed(memoryview(piece))
    return bytes(printed)
