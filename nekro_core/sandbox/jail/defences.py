"""The defences of a box, each with a name, so that a test can switch one off.

A test of an attack runs once more with the defence switched off and must then see the attack
succeed: else it would pass whatever the box did. No setting leads here; everything is on unless
code passes something else to `JailBackend.create`. The namespaces of processes and users are not
in the list: without the first, the supervisor's ``kill(-1)`` would reach the host.
"""

from dataclasses import dataclass, replace

from nekro_core.sandbox.box import BoxSpec

_UNBOUNDED_MEMORY = 1 << 40
_UNBOUNDED_PROCESSES = 100_000
_WIDE_DISK = 4 << 30
"""Never none at all: a test that fails must not fill the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JailDefences:
    """All on. What each keeps away is said beside it."""

    network: bool = True
    """A namespace of its own: the host's addresses and abstract sockets."""
    calls_filtered: bool = True
    """The seccomp filter: mounts, namespaces, tracing, kernel interfaces."""
    own_user: bool = True
    """A user id of its own where the host is root: root's files, settings and limits."""
    own_files: bool = True
    """A root that holds only what a box needs: the host's files."""
    own_paths: bool = True
    """Copies in the place of files that lie in somebody's home: whose the machine is."""
    read_only: bool = True
    """Nothing but the box's own folders can be written."""
    proc_covered: bool = True
    """The kernel's files below ``/proc``."""
    own_devices: bool = True
    """A ``/dev`` with the harmless ones: disks, kvm, terminals."""
    no_capabilities: bool = True
    """Not even those that are worth something inside the namespaces."""
    clean_start: bool = True
    """Nothing of this process's environment."""
    limits: bool = True
    """Memory and processes: rlimits, group, watchdog, and the sizes of sockets' buffers."""
    group: bool = True
    """The kernel's group, without which the rest must do."""
    disk: bool = True
    """The size of the folders that can be written."""

    def bounds(self, spec: BoxSpec) -> BoxSpec:
        """What is left of a box's bounds."""
        if not self.limits:
            spec = replace(spec, memory_bytes=_UNBOUNDED_MEMORY, processes=_UNBOUNDED_PROCESSES)
        return spec if self.disk else replace(spec, disk_bytes=_WIDE_DISK)


ALL = JailDefences()
