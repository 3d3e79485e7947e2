"""Builds the arguments of bubblewrap for a box.

The arguments decide which files, processes and devices of the machine the code in the box can see.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nekro_core.sandbox.box import BoxSpec
from nekro_core.sandbox.jail.defences import ALL, JailDefences
from nekro_core.sandbox.jail.interpreter import Interpreter
from nekro_core.sandbox.jail.runtime_folder import RuntimeFolder
from nekro_core.sandbox.jail.templates import BoxTemplate

GUEST = "/run/guest"
SUPERVISOR = f"import sys; sys.path.insert(0, {GUEST!r}); from guest_main import main; main()"
"""The code that starts the supervisor, for the interpreter's option ``-c``. If the interpreter got
the path of the folder instead of this code, it would first import `runpy`, which takes time."""

_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/home/user/.local/bin",
    "HOME": "/home/user",
    "USER": "user",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",  # noqa: S108 - the box's own folder
    "PYTHONDONTWRITEBYTECODE": "1",
    # glibc reserves 64 MB of address space for each malloc arena, and the address space is limited.
    # So there may be only two arenas.
    "MALLOC_ARENA_MAX": "2",
}

# These folders are mounted read-only if the host has them. /usr is not mounted as a whole, because
# container images often have applications in /usr/src and in other folders below /usr.
_SYSTEM = ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec")
_SYSTEM_DATA = (
    "/usr/share/zoneinfo",
    "/usr/share/misc",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/alternatives",
)
_TOP_LEVEL = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")

# These folders and files in /proc are hidden. The box's /proc lists only the processes of the box,
# but these folders and files describe the whole machine. So empty folders and files are mounted
# over them.
_HIDDEN_FOLDERS = ("sys", "irq", "bus", "fs", "acpi", "scsi", "asound", "driver")
_HIDDEN_FILES = (
    "sysrq-trigger",
    "kcore",
    "keys",
    "key-users",
    "timer_list",
    "kallsyms",
    "kmsg",
    "sched_debug",
    "latency_stats",
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
    "vmallocinfo",
    "slabinfo",
    "modules",
    "interrupts",
    "iomem",
    "ioports",
    "config.gz",
    # These files show the kernel's boot options and the names of the disks. Such a name can reveal
    # who owns the machine.
    "cmdline",
    "partitions",
    "diskstats",
    "swaps",
    "mdstat",
    "consoles",
)
_ALWAYS_HIDDEN = frozenset({"sysrq-trigger", "kcore"})

# A box sees these folders of the host if the defence `own_files` is switched off. /home, /etc, /opt
# and /run are not in this list, because the box gets mounts below them. Bubblewrap cannot make
# mount points in a folder that is mounted read-only.
_EVERYTHING = ("/var", "/sys", "/srv", "/root")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxLayout:
    """The files and limits that the host has prepared for one box."""

    spec: BoxSpec
    template: BoxTemplate
    folder: RuntimeFolder
    uploads: Path
    seccomp: int
    """The descriptor from which bubblewrap reads the seccomp filter."""


def box_arguments(view: BoxLayout, defences: JailDefences = ALL) -> list[str]:
    """Return bubblewrap's options for one box. Bubblewrap applies the options in this order. All
    ``defences`` are on, except in tests that show what each of them prevents."""
    environment = _ENVIRONMENT | dict(view.template.environment)
    if view.template.programs:
        environment["PATH"] = f"{view.template.programs}:{environment['PATH']}"
    return [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"),
        *(("--unshare-net",) if defences.network else ()),
        "--unshare-cgroup-try",
        *("--die-with-parent", "--as-pid-1", "--new-session"),
        *("--cap-drop" if defences.no_capabilities else "--cap-add", "ALL"),
        *("--uid", "1000", "--gid", "1000", "--hostname", "box"),
        *(("--clearenv",) if defences.clean_start else ()),
        *(part for pair in environment.items() for part in ("--setenv", *pair)),
        *(_whole_host() if not defences.own_files else ()),
        *_system(view.template.interpreter),
        *_proc(view.folder, covered=defences.proc_covered),
        *_own(view, own_devices=defences.own_devices),
        *view.template.arguments(),
        *(("--remount-ro", "/") if defences.read_only else ()),
        *("--chdir", "/home/user"),
        *(("--seccomp", str(view.seccomp)) if defences.calls_filtered else ()),
    ]


def _whole_host() -> Iterator[str]:
    for path in _EVERYTHING:
        yield from ("--ro-bind-try", path, path)


def _system(interpreter: Interpreter) -> Iterator[str]:
    bound = [path for path in _SYSTEM if Path(path).is_dir() and not Path(path).is_symlink()]
    if interpreter.prefix == "/usr/local":
        bound += ["/usr/local/bin", "/usr/local/lib"]
    elif interpreter.prefix != "/usr":
        bound.append(interpreter.prefix)
    for path in bound:
        yield from ("--ro-bind-try", path, path)
    for path in _SYSTEM_DATA:
        yield from ("--ro-bind-try", path, path)
    for path in _TOP_LEVEL:
        if Path(path).is_symlink():
            yield from ("--symlink", str(Path(path).readlink()), path)
        elif Path(path).is_dir():
            yield from ("--ro-bind", path, path)
    for path in interpreter.hidden:
        if any(path.startswith(f"{root}/") for root in bound):
            yield from _empty(path)


def _proc(folder: RuntimeFolder, *, covered: bool) -> Iterator[str]:
    yield from ("--proc", "/proc")
    if not covered:
        return
    for name in _HIDDEN_FOLDERS:
        if Path("/proc", name).is_dir():
            yield from _empty(f"/proc/{name}")
    for name in _HIDDEN_FILES:
        if _needs_hiding(Path("/proc", name)):
            yield from ("--ro-bind", str(folder.path / "empty"), f"/proc/{name}")


def _needs_hiding(path: Path) -> bool:
    """Return True if an empty file must be mounted over ``path``. Each such mount makes the start
    of a box 0.2 ms slower. So files that only root may open are not covered: the box's user cannot
    open them anyway. The files in `_ALWAYS_HIDDEN` are always covered."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return path.name in _ALWAYS_HIDDEN or bool(mode & 0o006)


def _own(view: BoxLayout, *, own_devices: bool) -> Iterator[str]:
    folder, disk = view.folder, view.spec.disk_bytes
    quarter = str(max(disk // 4, 1024 * 1024))
    # Bubblewrap's /dev is a tmpfs without a size limit. So /dev/shm becomes a tmpfs with a limit,
    # and the rest of /dev becomes read-only.
    yield from ("--dev", "/dev") if own_devices else ("--dev-bind", "/dev", "/dev")
    yield from ("--perms", "1777", "--size", quarter, "--tmpfs", "/dev/shm")  # noqa: S108
    yield from ("--remount-ro", "/dev")
    yield from ("--perms", "1777", "--size", quarter, "--tmpfs", "/tmp")  # noqa: S108
    yield from ("--perms", "0755", "--size", str(disk), "--tmpfs", "/home/user")
    yield from ("--dir", "/app", "--symlink", "/home/user", "/app/shared")
    yield from ("--ro-bind", str(view.uploads), "/app/uploads")
    yield from ("--ro-bind", str(folder.guest), GUEST)
    yield from ("--ro-bind", str(folder.path / "passwd"), "/etc/passwd")
    yield from ("--ro-bind", str(folder.path / "group"), "/etc/group")


def _empty(path: str) -> Iterator[str]:
    yield from ("--size", "4096", "--tmpfs", path, "--remount-ro", path)
