"""The defences of a box. Each has a name, so that a test can switch it off.

A test of an attack runs twice. With the defence switched off, the attack must succeed; this proves
that the test can notice a successful attack. No setting changes the defences: all are on, except in
tests that pass other defences to `JailBackend.create`. The PID namespace and the user namespace
cannot be switched off: without a PID namespace, the supervisor's ``kill(-1)`` would reach the host.
"""

from dataclasses import dataclass, replace

from nekro_core.sandbox.box import BoxSpec

_UNBOUNDED_MEMORY = 1 << 40
_UNBOUNDED_PROCESSES = 100_000
_WIDE_DISK = 4 << 30
"""The disk limit if the defence ``disk`` is off: large, but a failing test must not fill the
disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JailDefences:
    """The defences of a box, all on by default."""

    network: bool = True
    """A network namespace: protects the host's addresses and abstract sockets."""
    calls_filtered: bool = True
    """The seccomp filter: blocks mounts, new namespaces, tracing, and rare kernel interfaces."""
    own_user: bool = True
    """A separate user id if the bot runs as root: protects root's files, settings and limits."""
    own_files: bool = True
    """A root file system with only what a box needs: protects the host's files."""
    own_paths: bool = True
    """Copies of files that may be in a user's home. Their paths on the host would reveal the
    user's name."""
    read_only: bool = True
    """A read-only file system, except the box's own folders."""
    proc_covered: bool = True
    """Hides the files and folders below ``/proc`` that describe the machine."""
    own_devices: bool = True
    """A ``/dev`` with harmless devices only: protects disks, kvm, terminals."""
    no_capabilities: bool = True
    """No capabilities, not even capabilities that work only inside the namespaces."""
    clean_start: bool = True
    """An environment without the variables of this process."""
    limits: bool = True
    """Limits of memory and processes: rlimits, cgroup, watchdog, sizes of sockets' buffers."""
    group: bool = True
    """The cgroup. Tests without it check that the other limits suffice."""
    disk: bool = True
    """Limits the size of the writable folders."""

    def bounds(self, spec: BoxSpec) -> BoxSpec:
        """The limits of a box with these defences: ``spec``, with very large values for limits that
        are off."""
        if not self.limits:
            spec = replace(spec, memory_bytes=_UNBOUNDED_MEMORY, processes=_UNBOUNDED_PROCESSES)
        return spec if self.disk else replace(spec, disk_bytes=_WIDE_DISK)


ALL = JailDefences()
