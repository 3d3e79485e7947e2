"""Makes the configuration of a box's container, in the form that the engine needs.

The configuration contains all settings that confine the container. Source of their names: the
documentation of the Engine API, "Create a container".
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nekro_core.sandbox.box import BoxSpec
from nekro_core.sandbox.docker import boot
from nekro_core.sandbox.docker.fd_passing import SOCKET_FOLDER
from nekro_core.sandbox.docker.images import GuestImage
from nekro_core.sandbox.docker.users import BoxUserIds
from nekro_core.sandbox.package_fetch import PLACE
from nekro_core.system.confinement.jail_filter import build_buffer_filter

_MIB = 1024 * 1024
_ENVIRONMENT = {
    "HOME": "/home/user",
    "USER": "user",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",  # noqa: S108 - the box's own
    "PYTHONDONTWRITEBYTECODE": "1",
    # glibc's malloc reserves 64 MB of address space for each of its memory areas ("arenas"). The
    # address space of a run is limited, so there may be only two arenas.
    "MALLOC_ARENA_MAX": "2",
}

# The /proc and /sys of a container describe the whole machine. An engine hides some of these paths
# by default. This list also has paths that the engine shows.
_MASKED = (
    *(f"/proc/{name}" for name in ("irq", "bus", "fs", "acpi", "scsi", "asound", "driver")),
    *(f"/proc/{name}" for name in ("sysvipc", "kcore", "keys", "key-users", "timer_list")),
    *(f"/proc/{name}" for name in ("timer_stats", "sched_debug", "latency_stats", "kallsyms")),
    *(f"/proc/{name}" for name in ("kmsg", "kpagecount", "kpageflags", "kpagecgroup")),
    *(f"/proc/{name}" for name in ("vmallocinfo", "slabinfo", "modules", "interrupts", "iomem")),
    *(f"/proc/{name}" for name in ("ioports", "config.gz", "sysrq-trigger")),
    # Code in a box could recognize the machine by these files: they have its boot id, its name, its
    # boot options and the names of its disks.
    *(f"/proc/{name}" for name in ("sys", "cmdline", "partitions", "diskstats", "swaps")),
    *(f"/proc/{name}" for name in ("mdstat", "consoles")),
    *(f"/sys/fs/{name}" for name in ("btrfs", "ext4", "f2fs", "xfs", "bcachefs", "fuse")),
    *(f"/sys/{name}" for name in ("block", "bus", "class", "dev", "devices", "firmware")),
    *(f"/sys/{name}" for name in ("hypervisor", "kernel", "module", "power")),
)
_READ_ONLY = ("/proc/sys",)

STARTUP = f"{PLACE}/startup"
"""The folder of ``sitecustomize.py``, inside the folder of the shared packages. It is in the
PYTHONPATH of a box. So each Python program that the code starts imports the module, and the module
adds the shared packages to the program's path, after the packages of the image."""
_WITH_PACKAGES = {
    "PYTHONPATH": STARTUP,
    # Without this limit, OpenBLAS starts a thread for each processor of the machine, but a box may
    # have only few threads.
    "OPENBLAS_NUM_THREADS": "1",
}

_SPARE_PROCESSES = 8
"""The container may have this many more processes than the box's limit, for the programs that write
uploads into the box."""
_SPARE_BYTES = 48 * _MIB
"""The container may use this many bytes of memory more than the box's limit, for the supervisor and
the programs that write uploads into the box."""
_FILES = 50_000
_OPEN_FILES = 4096
"""Maximum number of open files of the supervisor. Runs and commands have the lower limit
`guest_wire.OPEN_FILES`; `guest_confinement.send_descriptor` gives the reason. A rootless engine may
be unable to set more than 4096, the kernel's default."""
_GUEST_NICE = 10
"""Nice value of the guest's processes, so that they get less processor time than the supervisor.
Otherwise the supervisor could not end processes that fork without end. The container's own share of
the processors is set in the engine."""


def box_limits(
    spec: BoxSpec, image: GuestImage, machine: str, *, shares_packages: bool = False
) -> dict[str, object]:
    """Return the settings for the supervisor: the limits that it sets for the guest, and the
    folders of packages that code can import. Packages of the image come before the shared
    packages."""
    limits: dict[str, object] = {
        "memory": spec.memory_bytes,
        "processes": spec.processes,
        "metered": True,
        "guest_nice": _GUEST_NICE,
        "guest_filter": build_buffer_filter(machine).hex(),
    }
    if folders := (*image.packages, *((PLACE,) if shares_packages else ())):
        limits["packages"] = ":".join(folders)
    return limits


def container_config(
    *,
    image: GuestImage,
    spec: BoxSpec,
    users: BoxUserIds,
    labels: Mapping[str, str],
    processors: float,
    socket_folder: Path | None = None,
    packages: str = "",
) -> dict[str, Any]:
    """Return the engine's configuration of a container. ``users`` has the user ids of the box,
    ``processors`` is the number of processors that it may keep busy. ``socket_folder`` has the
    descriptor socket (`fd_passing`). ``packages`` is the volume with the shared packages; empty for
    none."""
    environment = _ENVIRONMENT | {"PATH": image.path} | (_WITH_PACKAGES if packages else {})
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
        # When the bot's connection to the container ends, the engine closes the supervisor's input.
        # Then the supervisor ends, and the container with it. So the boxes of a killed bot end too.
        "StdinOnce": True,
        **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(image, spec, users, processors)
        | {"Mounts": list(_mounts(image, socket_folder, packages))},
    }


def _host_config(
    image: GuestImage, spec: BoxSpec, users: BoxUserIds, processors: float
) -> dict[str, Any]:
    quarter = max(spec.disk_bytes // 4, _MIB)
    files = spec.disk_bytes * 2 + quarter * 2
    memory = spec.memory_bytes + files + _SPARE_BYTES  # Files in a tmpfs count as memory.
    return {
        "AutoRemove": True,
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        # The engine's own seccomp filter stays active. The supervisor adds the filter of this
        # project.
        "SecurityOpt": ["no-new-privileges"],
        # The container gets no /dev/shm from the engine, because the engine does not limit the
        # number of files in it.
        "IpcMode": "none",
        # Without this setting, /proc/self/cgroup shows the engine's groups on the host.
        "CgroupnsMode": "private",
        "PidsLimit": spec.processes + _SPARE_PROCESSES,
        "Memory": memory,
        "MemorySwap": memory,
        "NanoCpus": int(processors * 1e9),
        "OomScoreAdj": 500,
        # By default the engine writes all output of the guest to its disk, without a limit.
        "LogConfig": {"Type": "none", "Config": {}},
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": _OPEN_FILES, "Hard": _OPEN_FILES},
        ],
        "Tmpfs": _folders(image, spec, users, quarter),
        "MaskedPaths": list(_MASKED),
        "ReadonlyPaths": list(_READ_ONLY),
    }


def packages_mount(volume: str, *, read_only: bool) -> dict[str, Any]:
    """Return the mount of the volume with the shared packages, at `PLACE`. The engine makes the
    volume if the volume does not exist. Files that an image has at `PLACE` are not copied into the
    volume."""
    return {
        "Type": "volume",
        "Source": volume,
        "Target": PLACE,
        "ReadOnly": read_only,
        "VolumeOptions": {"NoCopy": True},
    }


def _mounts(
    image: GuestImage, socket_folder: Path | None, packages: str
) -> Iterator[dict[str, Any]]:
    # Each volume of the image gets a mount of limited size. Otherwise the engine would make a
    # folder on its disk for the volume, without a limit.
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
    if packages:
        yield packages_mount(packages, read_only=True)


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
        # The supervisor makes the link /app/shared here, because the root is read-only.
        folders["/app"] = folder(64 * 1024, "0755", users.code, files=16)
    return folders
