"""Lists the defences of a box. Each has a name, so that a test can switch it off.

A test of an attack runs twice, with the defence switched on and off. With the defence switched off,
the attack must succeed. This proves that the test can notice a successful attack. No setting
changes the defences: all are on, except in tests that pass other defences to `JailBackend.create`.
The PID namespace and the user namespace cannot be switched off: without a PID namespace, the
supervisor's ``kill(-1)`` would reach the host.
"""

from dataclasses import dataclass, replace

from nekro_core.sandbox.box import BoxSpec

_UNBOUNDED_MEMORY = 1 << 40
_UNBOUNDED_PROCESSES = 100_000
_WIDE_DISK = 4 << 30
"""The disk limit, in bytes, if the defence ``disk`` is off. It is large, but a failing test must
not fill the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JailDefences:
    """The defences of a box, all on by default."""

    network: bool = True
    """The box has a network namespace. It protects the host's addresses and abstract sockets."""
    calls_filtered: bool = True
    """The box has a seccomp filter. It blocks mounts, new namespaces, tracing, and rare kernel
    interfaces."""
    own_user: bool = True
    """If the bot runs as root, the box has a separate user id. It protects root's files, settings
    and limits."""
    own_files: bool = True
    """The box has a root file system with only what it needs. This protects the host's files."""
    own_paths: bool = True
    """The box gets copies of files that may be in a user's home. The paths of the originals on the
    host would reveal the user's name."""
    read_only: bool = True
    """The file system is read-only, except the box's own folders."""
    proc_covered: bool = True
    """The files and folders below ``/proc`` that describe the machine are hidden."""
    own_devices: bool = True
    """The box has a ``/dev`` with harmless devices only. This protects disks, kvm and terminals."""
    no_capabilities: bool = True
    """The box's processes have no capabilities, not even capabilities that work only inside the
    namespaces."""
    clean_start: bool = True
    """The box's environment does not have the variables of this process."""
    limits: bool = True
    """The memory and the number of processes are limited, by rlimits, a cgroup, the watchdog and
    the sizes of sockets' buffers."""
    group: bool = True
    """The box has a cgroup. Tests switch it off to check that the other limits suffice."""
    disk: bool = True
    """The size of the writable folders is limited."""

    def bounds(self, spec: BoxSpec) -> BoxSpec:
        """Return the limits of a box with these defences: ``spec``, but with very large values for
        limits that are switched off."""
        if not self.limits:
            spec = replace(spec, memory_bytes=_UNBOUNDED_MEMORY, processes=_UNBOUNDED_PROCESSES)
        return spec if self.disk else replace(spec, disk_bytes=_WIDE_DISK)


ALL = JailDefences()
