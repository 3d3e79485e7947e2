"""Tests of those parts of the docker backend that need no engine."""

import io
import os
import shutil
import socket
import stat
import struct
import tarfile
from pathlib import Path, PurePath
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.sandbox.backends import open_backend
from nekro_core.sandbox.box import BackendUnavailable, BoxSpec
from nekro_core.sandbox.docker import root_files
from nekro_core.sandbox.docker.container import box_limits, container_config
from nekro_core.sandbox.docker.engine import DockerEngine, DockerEngineInfo
from nekro_core.sandbox.docker.images import GuestImage
from nekro_core.sandbox.docker.launch import ContainerLauncher
from nekro_core.sandbox.docker.orphans import box_labels, is_orphan
from nekro_core.sandbox.docker.relay import plain_socket
from nekro_core.sandbox.docker.stream import StreamDemultiplexer
from nekro_core.sandbox.docker.users import BoxUserIds, UserIdAllocator
from nekro_core.sandbox.guest.guest_wire import ProtocolError
from nekro_core.sandbox.settings import BackendName, SandboxSettings
from nekro_core.sandbox.uploads import UploadQuota

# The attached stream


class ChannelLike:
    """Behaves like an SSH channel: it raises `TimeoutError` when it would block, its descriptor
    signals only reading, and it takes a few bytes at a time."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.full = 0

    def fileno(self) -> int:
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def recv(self, size: int) -> bytes:
        try:
            return self._sock.recv(size)
        except BlockingIOError:
            raise TimeoutError from None

    def send(self, data: bytes) -> int:
        self.full += 1
        if self.full % 3:
            raise TimeoutError
        return self._sock.send(data[:5000])

    def close(self) -> None:
        self._sock.close()


async def test_a_channel_that_blocks_like_ssh_is_relayed_completely() -> None:
    there, far = socket.socketpair()
    plain = plain_socket(ChannelLike(far))
    data = os.urandom(300_000)
    with plain, there:
        plain.setblocking(True)
        for source, target in ((plain, there), (there, plain)):
            received = bytearray()

            def take(target: socket.socket = target, received: bytearray = received) -> None:
                while len(received) < len(data):
                    received.extend(target.recv(65536))

            with anyio.fail_after(30):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(anyio.to_thread.run_sync, take)
                    await anyio.to_thread.run_sync(source.sendall, data)
            assert received == data


@given(
    blocks=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=10),
    cuts=st.lists(st.integers(1, 30), max_size=40),
)
def test_blocks_are_the_same_however_their_stream_is_cut(
    blocks: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    sent = b"".join(struct.pack("!B3xI", kind, len(data)) + data for kind, data in blocks)
    got: dict[int, bytes] = {1: b"", 2: b""}

    def take(kind: int, data: memoryview) -> None:
        got[kind] += data

    demultiplexer = StreamDemultiplexer(take)
    for cut in [*cuts, len(sent) + 1]:
        demultiplexer.feed(memoryview(sent[:cut]))
        sent = sent[cut:]
    for kind, data in got.items():
        assert data == b"".join(part for of, part in blocks if of == kind)


@pytest.mark.parametrize("head", [b"\3\0\0\0", b"\0\0\0\0", b"\1\0\1\0", b"HTTP"])
def test_an_invalid_block_is_an_error(head: bytes) -> None:
    with pytest.raises(ProtocolError):
        StreamDemultiplexer(lambda kind, data: None).feed(memoryview(head + b"\0\0\0\1x"))


# Orphaned containers and user ids


def test_a_container_of_a_living_process_is_not_an_orphan() -> None:
    mine = box_labels("folder")
    assert not is_orphan(mine, "")
    assert not is_orphan(mine, "folder"), (
        "the container belongs to a living process of the same bot"
    )
    process = mine["nekro.box.process"]
    pid, _, start = process.partition(".")
    table = [
        ({"nekro.box.process": f"{pid}.1"}, "", True),  # another process has this pid now
        ({"nekro.box.process": f"4194999.{start}"}, "", True),  # there is no process with this pid
        ({"nekro.box.process": "nonsense"}, "", False),
        ({"nekro.box.place": "elsewhere"}, "", False),
        # The bot that asks has the same data folder as the maker of the container. Two bots cannot
        # run with one data folder, so the maker has ended.
        ({"nekro.box.place": "elsewhere"}, "folder", True),
        ({"nekro.box.place": "elsewhere"}, "another", False),
        ({"nekro.box.place": "elsewhere", "nekro.box.owner": ""}, "", False),
    ]
    for changed, owner, orphan in table:
        assert is_orphan(mine | changed, owner) is orphan, changed


def test_no_two_boxes_share_a_user_id() -> None:
    for remapped in (False, True):
        users = UserIdAllocator(remapped=remapped)
        taken = [users.take() for _ in range(200)]
        ids = [one for pair in taken for one in (pair.code, pair.uploads)]
        assert len(set(ids)) == 400
        assert max(ids) < (65536 if remapped else 2**31)
        assert min(ids) >= 10_000


# The configuration of a container


def image(**changes: object) -> GuestImage:
    told = {
        "image_id": "sha256:x",
        "python": "/usr/bin/python3",
        "version": (3, 11, 2),
        "modules": b"",
        "path": "/opt/bin:/bin",
        "environment": ("SECRET", "PATH"),
        "packages": (),
        "suffix": ".cpython-311-x86_64-linux-gnu.so",
        "glibc": (2, 36),
        "volumes": (),
        "has_shared": True,
    }
    return GuestImage(**(told | changes))  # type: ignore[arg-type]


def test_the_configuration_of_a_container_has_every_confinement() -> None:
    config = container_config(
        image=image(volumes=("/data",), has_shared=False),
        spec=BoxSpec(memory_bytes=100 << 20, disk_bytes=8 << 20, processes=20),
        users=BoxUserIds(code=70_000, uploads=70_001),
        labels={"nekro.box": "1"},
        processors=0.5,
    )
    host = config["HostConfig"]
    assert config["User"] == "70000:70000"
    assert config["NetworkDisabled"] is True
    assert config["StdinOnce"] is True
    assert "SECRET" in config["Env"], "a name without a value removes a variable of the image"
    assert "PATH=/opt/bin:/bin" in config["Env"]
    told = {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "AutoRemove": True,
        "PidsLimit": 28,
        "NanoCpus": 500_000_000,
        "LogConfig": {"Type": "none", "Config": {}},
        "IpcMode": "none",
    }
    assert {name: host[name] for name in told} == told
    assert host["Memory"] == host["MemorySwap"] == (100 + 8 * 2 + 2 * 2 + 48) << 20
    assert set(host["Tmpfs"]) == {"/home/user", "/tmp", "/dev/shm", "/app/uploads", "/app"}
    assert all("nosuid,nodev,size=" in options for options in host["Tmpfs"].values())
    assert all("nr_inodes=" in options for options in host["Tmpfs"].values())
    assert "uid=70001" in host["Tmpfs"]["/app/uploads"]
    assert [mount["Target"] for mount in host["Mounts"]] == ["/data"]
    assert "Privileged" not in host
    assert "Binds" not in host


def test_shared_packages_are_mounted_read_only_and_come_after_those_of_the_image() -> None:
    config = container_config(
        image=image(packages=("/usr/lib/a", "/usr/lib/b")),
        spec=BoxSpec(),
        users=BoxUserIds(code=70_000, uploads=70_001),
        labels={},
        processors=1,
        packages="nekro-box-packages-x",
    )
    (mount,) = config["HostConfig"]["Mounts"]
    assert (mount["Type"], mount["Source"], mount["Target"], mount["ReadOnly"]) == (
        *("volume", "nekro-box-packages-x", "/opt/packages", True),
    )
    assert mount["VolumeOptions"]["NoCopy"], "files of the image must not get into the volume"
    assert "PYTHONPATH=/opt/packages/startup" in config["Env"]
    told = image(packages=("/usr/lib/a", "/usr/lib/b"))
    with_packages = box_limits(BoxSpec(), told, "x86_64", shares_packages=True)
    assert with_packages["packages"] == "/usr/lib/a:/usr/lib/b:/opt/packages"
    assert box_limits(BoxSpec(), told, "x86_64")["packages"] == "/usr/lib/a:/usr/lib/b"


# A root file system for boxes


def names(archive: io.BytesIO) -> dict[str, tarfile.TarInfo]:
    archive.seek(0)
    with tarfile.open(fileobj=archive) as opened:
        members = opened.getmembers()
    assert len({member.name for member in members}) == len(members), "a name occurs twice"
    return {member.name: member for member in members}


def test_a_folder_becomes_the_root_of_an_image(tmp_path: Path) -> None:
    for folder in ("usr/bin", "etc", "proc/1", "dev", "home/someone"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "usr/bin/python3").write_bytes(b"x")
    (tmp_path / "usr/bin/su").write_bytes(b"x")
    (tmp_path / "usr/bin/su").chmod(0o4755)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\n")
    os.mkfifo(tmp_path / "etc/fifo")
    archive = io.BytesIO()
    root_files.pack_folder(tmp_path, archive)
    packed = names(archive)
    assert {"usr/bin/python3", "bin", "etc/passwd", "etc/group", "home/user"} <= set(packed)
    assert packed["app/shared"].linkname == "/home/user"
    assert not packed["usr/bin/su"].mode & stat.S_ISUID
    assert not {"proc/1", "etc/fifo"} & set(packed)
    assert packed["tmp"].mode == 0o1777


def test_a_folder_without_a_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="no usr/bin/python3"):
        root_files.pack_folder(tmp_path, io.BytesIO())


# Without an engine


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("unix:///nowhere/docker.sock", ("No such file", "systemctl start docker")),
        ("tcp://127.0.0.1:1", ("refused", "NEKRO_SANDBOX__DOCKER_HOST")),
        ("nonsense://x", ("Invalid bind address",)),
    ],
)
async def test_a_missing_engine_is_reported_with_a_remedy(
    host: str, words: tuple[str, ...]
) -> None:
    settings = SandboxSettings(backend=BackendName.DOCKER, docker_host=host)
    async with anyio.create_task_group() as tasks:
        with pytest.raises(BackendUnavailable) as caught:
            await open_backend(settings, tasks)
        tasks.cancel_scope.cancel()
    for part in words:
        assert part in str(caught.value)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("ldd") is None, reason="there is no ldd")
def test_the_image_archive_lists_every_folder_once() -> None:
    """An engine makes missing folders itself, perhaps with a mode that locks out a box's user."""
    target = io.BytesIO()
    root_files.pack_this_machine("/usr/bin/python3", target)
    target.seek(0)
    seen: set[str] = set()
    with tarfile.open(fileobj=target) as archive:
        for member in archive:
            parent = str(PurePath(member.name).parent)
            assert parent == "." or parent in seen, member.name
            assert member.name not in seen
            assert not member.isdir() or member.mode & 0o555 == 0o555, member.name
            seen.add(member.name)


# Descriptor sockets


class EngineWithoutSockets(DockerEngine):
    """Refuses every container. The first two containers are refused at the same time."""

    def __init__(self) -> None:
        facts = DockerEngineInfo(
            version="27",
            machine="x86_64",
            system="linux",
            remapped=False,
            memory=1 << 30,
            unbounded=(),
        )
        super().__init__(None, facts)  # type: ignore[arg-type]
        self.with_socket: list[bool] = []
        self._both = anyio.Event()

    async def ask(self, _call: object, *args: Any, **_: Any) -> Any:
        mounts = args[1]["HostConfig"]["Mounts"]
        self.with_socket.append(any(each["Type"] == "bind" for each in mounts))
        if len(self.with_socket) == 2:
            self._both.set()
        await self._both.wait()
        raise BackendUnavailable("this container cannot be made")


async def test_two_first_boxes_at_once_are_both_made_again_without_descriptor_sockets(
    tmp_path: Path,
) -> None:
    engine = EngineWithoutSockets()
    async with anyio.create_task_group() as tasks:
        launcher = ContainerLauncher(
            engine,
            tasks,
            labels={},
            processors=1,
            doors_in=tmp_path,
            may_have_doors=True,
            total_bytes=1 << 30,
            total_wait_s=1,
            uploads=UploadQuota(1 << 20),
        )

        async def launch() -> None:
            with pytest.raises(BackendUnavailable, match="cannot be made"):
                await launcher.launch(image(), BoxSpec())

        async with anyio.create_task_group() as both:
            both.start_soon(launch)
            both.start_soon(launch)
        assert engine.with_socket == [True, True, False, False]
        assert [*tmp_path.iterdir()] == []
        launcher.close()
