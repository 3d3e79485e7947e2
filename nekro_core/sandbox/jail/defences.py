"""The defences of a box, each with a name, so that a test can switch one off.

A test of an attack runs a second time with the defence switched off and must then see the attack
succeed. Otherwise the test would pass whatever the box did. No setting changes the defences: all
are on unless code passes others to `JailBackend.create`. The namespaces of processes and users are
not in the list: without the first, the supervisor's ``kill(-1)`` would reach the host.
"""

from dataclasses import dataclass, replace

from nekro_core.sandbox.box import BoxSpec

_UNBOUNDED_MEMORY = 1 << 40
_UNBOUNDED_PROCESSES = 100_000
_WIDE_DISK = 4 << 30
"""Large but not unlimited: a test that fails must not fill the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JailDefences:
    """All defences are on. Each docstring says what its defence protects."""

    network: bool = True
    """A network namespace: protects the host's addresses and abstract sockets."""
    calls_filtered: bool = True
    """The seccomp filter: blocks mounts, namespaces, tracing, kernel interfaces."""
    own_user: bool = True
    """A separate user id if the host is root: protects root's files, settings and limits."""
    own_files: bool = True
    """A root file system with only what a box needs: protects the host's files."""
    own_paths: bool = True
    """Copies of files that lie in a user's home: hides whose machine it is."""
    read_only: bool = True
    """Only the box's own folders can be written."""
    proc_covered: bool = True
    """Hides the kernel's files below ``/proc``."""
    own_devices: bool = True
    """A ``/dev`` with harmless devices only: protects disks, kvm, terminals."""
    no_capabilities: bool = True
    """No capabilities, not even those that work only inside the namespaces."""
    clean_start: bool = True
    """Hides the environment of this process."""
    limits: bool = True
    """Limits of memory and processes: rlimits, cgroup, watchdog, sizes of sockets' buffers."""
    group: bool = True
    """The cgroup. Without it, the other limits must suffice."""
    disk: bool = True
    """Limits the size of the writable folders."""

    def bounds(self, spec: BoxSpec) -> BoxSpec:
        """The limits of a box that remain with these defences."""
        if not self.limits:
            spec = replace(spec, memory_bytes=_UNBOUNDED_MEMORY, processes=_UNBOUNDED_PROCESSES)
        return spec if self.disk else replace(spec, disk_bytes=_WIDE_DISK)


ALL = JailDefences()
