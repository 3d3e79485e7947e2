"""Does the self-check of a backend: a run inside a box checks how the box is confined.

The check is the same for every backend. The run inspects its own process, tries operations that
must fail, and reports the results through a tool call.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from nekro_core.sandbox.box import (
    Answer,
    Box,
    BoxSpec,
    CallReturn,
    Check,
    GuestCall,
    GuestFunction,
    RunLimits,
    StopReason,
)

_PROBE = """
import ctypes, os, resource, socket

def status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return line.split(":", 1)[1].strip()

def writable(path):
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError as error:
        return ""
    return path

def reaches(family, address):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(1)
            sock.connect(address)
    except OSError:
        return False
    return True

def refused(number):
    ctypes.set_errno(0)
    return libc.unshare(number) != 0

def makes(path):
    try:
        open(path, "w").close()
    except OSError:
        return ""
    return path

def interfaces():
    return [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]

def routes():
    return [line.split()[0] for line in open("/proc/net/route").readlines()[1:]]

libc = ctypes.CDLL(None, use_errno=True)
kernel = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper", "/proc/kcore", "/dev/mem", "/dev/kmsg")
system = ("/x", "/usr/bin/x", "/etc/x", "/run/guest/x", "/app/uploads/x", "/dev/x", "/proc/x")
report({
    "uid_map": open("/proc/self/uid_map").read().split(),
    "ids": list(os.getresuid()) + list(os.getresgid()) + os.getgroups(),
    "capabilities": {name: status(name)
        for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    "no_new_privileges": status("NoNewPrivs"),
    "seccomp": status("Seccomp"),
    "interfaces": interfaces(),
    "routes": routes(),
    "network": reaches(socket.AF_INET, ("1.1.1.1", 80)),
    "kernel_files": [path for path in map(writable, kernel) if path],
    "system_files": [path for path in map(makes, system) if path],
    "user_namespaces_refused": refused(0x10000000),
    "limits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1]
        for name in ("DATA", "NPROC", "NOFILE", "CORE")},
    "environment": sorted(os.environ),
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    "processes": [name for name in os.listdir("/proc") if name.isdigit()],
    "home_bytes": os.statvfs("/home/user").f_blocks * os.statvfs("/home/user").f_frsize,
})
"""

_EXPECTED_ENVIRONMENT = frozenset(
    {"PATH", "HOME", "USER", "LANG", "TMPDIR", "PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX", "PWD"}
    # Only images with packages set these variables.
    | {"PYTHONPATH", "OPENBLAS_NUM_THREADS", "FONTCONFIG_FILE"}
)


class _Report(msgspec.Struct):
    uid_map: list[str]
    ids: list[int]
    capabilities: dict[str, str]
    no_new_privileges: str
    seccomp: str
    interfaces: list[str]
    routes: list[str]
    network: bool
    kernel_files: list[str]
    system_files: list[str]
    user_namespaces_refused: bool
    limits: dict[str, int]
    environment: list[str]
    descriptors: list[int]
    processes: list[str]
    home_bytes: int


async def check_box(
    box: Box,
    spec: BoxSpec,
    *,
    own_user_namespace: bool = True,
    environment: frozenset[str] = frozenset(),
) -> tuple[Check, ...]:
    """Run the probe in ``box``, and return one `Check` for each property that it must have.

    ``own_user_namespace`` says whether the backend gives each box a separate user namespace.
    ``environment`` has the names of the variables that the image sets, if the operator chose the
    image.
    """
    reports: list[Any] = []

    async def report(call: GuestCall) -> Answer:
        reports.extend(call.args)
        return CallReturn(None)

    run = await box.start_run([GuestFunction(names=("report",))], report, RunLimits(seconds=20))
    await run.feed(_PROBE, 1)
    result = await run.finish()
    if result.stop is not StopReason.FINISHED or len(reports) != 1:
        seen = result.error or result.stop.value
        return (Check(name="a run answers", ok=False, seen=seen),)
    try:
        read = msgspec.convert(reports[0], _Report)
    except msgspec.ValidationError as error:
        return (Check(name="a run answers", ok=False, seen=str(error)),)
    allowed = _EXPECTED_ENVIRONMENT | environment
    return tuple(_judge(read, spec, allowed, own_user_namespace=own_user_namespace))


def _judge(
    read: _Report, spec: BoxSpec, environment: frozenset[str], *, own_user_namespace: bool
) -> Iterator[Check]:
    def check(name: str, seen: object, holds: Callable[[], bool], remedy: str = "") -> Check:
        ok = holds()
        return Check(name=name, ok=ok, seen=str(seen), remedy="" if ok else remedy)

    yield check(
        "one user id, not root's",
        f"map {' '.join(read.uid_map)}, ids {read.ids}",
        lambda: 0 not in read.ids and (not own_user_namespace or read.uid_map[2:] == ["1"]),
    )
    yield check(
        "no capabilities",
        read.capabilities,
        lambda: all(int(value, 16) == 0 for value in read.capabilities.values()),
    )
    yield check("no new privileges", read.no_new_privileges, lambda: read.no_new_privileges == "1")
    yield check("system calls filtered", f"mode {read.seccomp}", lambda: read.seccomp == "2")
    yield check(
        "no further user namespaces",
        read.user_namespaces_refused,
        lambda: read.user_namespaces_refused,
    )
    yield check(
        "no network",
        f"interfaces {read.interfaces}, routes {read.routes}",
        lambda: read.interfaces == ["lo"] and not read.routes and not read.network,
    )
    yield check("kernel settings closed", read.kernel_files, lambda: not read.kernel_files)
    yield check("system read-only", read.system_files, lambda: not read.system_files)
    yield check(
        "limits set",
        read.limits,
        lambda: (
            0 < read.limits["DATA"] <= spec.memory_bytes
            and 0 < read.limits["NPROC"] <= spec.processes
            and read.limits["CORE"] == 0
        ),
    )
    yield check("disk bounded", read.home_bytes, lambda: 0 < read.home_bytes <= spec.disk_bytes)
    strange = set(read.environment) - environment
    yield check("clean environment", sorted(strange), lambda: not strange)
    # A run may have five open descriptors: 0, 1, 2, the run's channel, and the descriptor through
    # which the probe lists the descriptors.
    yield check("clean descriptors", read.descriptors, lambda: len(read.descriptors) <= 5)
    yield check("own processes only", read.processes, lambda: len(read.processes) <= 3)
