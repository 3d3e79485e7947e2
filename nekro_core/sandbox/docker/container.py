"""The configuration of a box's container, in the engine's own terms.

Everything that confines it stands here. Source of the names: the Engine API, "Create a container".
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nekro_core.sandbox.box import BoxSpec
from nekro_core.sandbox.docker import boot
from nekro_core.sandbox.docker.fd_passing import SOCKET_FOLDER
from nekro_core.sandbox.docker.images import GuestImage
from nekro_core.sandbox.docker.users import BoxUserIds
from nekro_core.system.confinement.jail_filter import build_buffer_filter

_MIB = 1024 * 1024
_ENVIRONMENT = {
    "HOME": "/home/user",
    "USER": "user",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",  # noqa: S108 - the box's own
    "PYTHONDONTWRITEBYTECODE": "1",
    # Each arena of glibc reserves 64 MB of address space.
    "MALLOC_ARENA_MAX": "2",
}

# A fresh /proc and /sys tell of the whole kernel. What an engine hides by default, and more.
_MASKED = (
    *(f"/proc/{name}" for name in ("irq", "bus", "fs", "acpi", "scsi", "asound", "driver")),
    *(f"/proc/{name}" for name in ("sysvipc", "kcore", "keys", "key-users", "timer_list")),
    *(f"/proc/{name}" for name in ("timer_stats", "sched_debug", "latency_stats", "kallsyms")),
    *(f"/proc/{name}" for name in ("kmsg", "kpagecount", "kpageflags", "kpagecgroup")),
    *(f"/proc/{name}" for name in ("vmallocinfo", "slabinfo", "modules", "interrupts", "iomem")),
    *(f"/proc/{name}" for name in ("ioports", "config.gz", "sysrq-trigger")),
    # Which machine it is: its boot id and name, how it was started, its disks by name.
    *(f"/proc/{name}" for name in ("sys", "cmdline", "partitions", "diskstats", "swaps")),
    *(f"/proc/{name}" for name in ("mdstat", "consoles")),
    *(f"/sys/fs/{name}" for name in ("btrfs", "ext4", "f2fs", "xfs", "bcachefs", "fuse")),
    *(f"/sys/{name}" for name in ("block", "bus", "class", "dev", "devices", "firmware")),
    *(f"/sys/{name}" for name in ("hypervisor", "kernel", "module", "power")),
)
_READ_ONLY = ("/proc/sys",)

_SPARE_PROCESSES = 8
"""Over what the box's user may have: who writes uploads is another user, and must find room."""
_SPARE_BYTES = 48 * _MIB
"""Over what runs and files may use: the supervisor, and who writes uploads."""
_FILES = 50_000
_OPEN_FILES = 4096
"""For the supervisor. Code may have `guest_wire.OPEN_FILES`: see
`guest_confinement.send_descriptor`. More than the 4096 of the kernel's own default may be more than
an engine without root may give."""
_GUEST_NICE = 10
"""Within the container, so that the supervisor gets its turn to end what forks without end; among
containers the engine shares the processors."""


def box_limits(spec: BoxSpec, image: GuestImage, machine: str) -> dict[str, object]:
    """What the supervisor is told to bound itself by, and to make ready."""
    limits: dict[str, object] = {
        "memory": spec.memory_bytes,
        "processes": spec.processes,
        "metered": True,
        "guest_nice": _GUEST_NICE,
        "guest_filter": build_buffer_filter(machine).hex(),
    }
    if image.packages:
        limits["packages"] = image.packages[0]
    return limits


def container_config(
    *,
    image: GuestImage,
    spec: BoxSpec,
    users: BoxUserIds,
    labels: Mapping[str, str],
    processors: float,
    socket_folder: Path | None = None,
) -> dict[str, Any]:
    """A container in which no code of ours runs. ``socket_folder`` has its descriptor socket."""
    environment = _ENVIRONMENT | {"PATH": image.path}
    removed = [name for name in (*image.environment, "HOSTNAME") if name not in environment]
    return {
        "Image": image.image_id,
        "Entrypoint": boot.command(image.python),
        "Cmd": [],
        "User": f"{users.code}:{users.code}",
        "WorkingDir": "/home/user",
        "Hostname": "box",
        "Env": [*(f"{name}={value}" for name, value in environment.items()), *removed],
        "Labels": dict(labels),
        "Tty": False,
        "OpenStdin": True,
        # The supervisor's input ends with the host's connection, the supervisor with its input, the
        # container with the supervisor: a bot that is killed takes its boxes with it.
        "StdinOnce": True,
        **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(image, spec, users, processors)
        | {"Mounts": list(_mounts(image, socket_folder))},
    }


def _host_config(
    image: GuestImage, spec: BoxSpec, users: BoxUserIds, processors: float
) -> dict[str, Any]:
    quarter = max(spec.disk_bytes // 4, _MIB)
    files = spec.disk_bytes * 2 + quarter * 2
    memory = spec.memory_bytes + files + _SPARE_BYTES  # files in a tmpfs are memory of the box
    return {
        "AutoRemove": True,
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        # The engine's own filter of system calls stays; the supervisor stacks ours on it.
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "none",  # private too, and without a /dev/shm that only its size bounds
        # Else /proc/self/cgroup names the groups above, of whose session the engine is.
        "CgroupnsMode": "private",
        "PidsLimit": spec.processes + _SPARE_PROCESSES,
        "Memory": memory,
        "MemorySwap": memory,
        "NanoCpus": int(processors * 1e9),
        "OomScoreAdj": 500,
        # The default would copy all that a guest prints to the engine's disk, outside every quota.
        "LogConfig": {"Type": "none", "Config": {}},
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": _OPEN_FILES, "Hard": _OPEN_FILES},
        ],
        "Tmpfs": _folders(image, spec, users, quarter),
        "MaskedPaths": list(_MASKED),
        "ReadonlyPaths": list(_READ_ONLY),
    }


def _mounts(image: GuestImage, socket_folder: Path | None) -> Iterator[dict[str, Any]]:
    # An image's own volumes would be folders on the engine's disk, without a quota.
    for path in image.volumes:
        yield {
            "Type": "tmpfs",
            "Target": path,
            "ReadOnly": True,
            "TmpfsOptions": {"SizeBytes": 4096},
        }
    if socket_folder is not None:
        yield {
            "Type": "bind",
            "Source": str(socket_folder),
            "Target": SOCKET_FOLDER,
            "ReadOnly": True,
        }


def _folders(image: GuestImage, spec: BoxSpec, users: BoxUserIds, quarter: int) -> dict[str, str]:
    def folder(size: int, mode: str, user: int, files: int = _FILES) -> str:
        owner = f"uid={user},gid={user},mode={mode}"
        return f"rw,exec,nosuid,nodev,size={size},nr_inodes={files},{owner}"

    folders = {
        "/home/user": folder(spec.disk_bytes, "0755", users.code),
        "/tmp": folder(quarter, "1777", users.code),  # noqa: S108 - the box's own
        "/dev/shm": folder(quarter, "1777", users.code),  # noqa: S108
        "/app/uploads": folder(spec.disk_bytes, "0755", users.uploads),
    }
    if not image.has_shared:
        # A root that is read-only cannot be given the link /app/shared; this folder can.
        folders["/app"] = folder(64 * 1024, "0755", users.code, files=16)
    return folders
