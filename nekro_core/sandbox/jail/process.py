"""Starts, watches and ends the processes of one box. The launcher is the bubblewrap process that
starts the box."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import IO

import anyio

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.guest import guest_socket_memory
from nekro_core.sandbox.guest.guest_wire import FOLDERS
from nekro_core.sandbox.jail import process_tree
from nekro_core.sandbox.jail.cgroups import BoxCgroup
from nekro_core.sandbox.jail.interpreter import ProcessIdentity

_FILE = 1024
"""How many bytes the kernel needs for the directory entry and the inode of a file."""
_FOLLOW_TIMEOUT_S = 2.0
"""Longest wait, in seconds, for the end of the killed supervisor, and then for the end of its
launcher."""


class JailProcesses:
    """The launcher of a box and its descendants. They end when this process ends, even if this
    process is killed."""

    def __init__(
        self, launched: subprocess.Popen[bytes], complaints: IO[bytes], free: Callable[[], None]
    ) -> None:
        self.pid = launched.pid
        self._launched = launched
        self._complaints = complaints
        self._free = free
        self._inner: int | None = None
        self._inner_process: int | None = None
        self._group: BoxCgroup | None = None
        self._freed = False

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        identity: ProcessIdentity,
        dropper: str = "",
        descriptors: Sequence[int],
        free: Callable[[], None],
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> "JailProcesses":
        """Start the launcher with the arguments ``command``. It inherits only the given open
        ``descriptors`` and the variables of ``environment``. ``free`` is called once, when all
        processes of the box have ended.

        ``dropper`` is a program that changes its user to ``identity`` and then executes the
        launcher. This call blocks for a few milliseconds. It must run in the main thread, because
        the kernel kills the launcher when the *thread* that forked it ends, and a worker thread can
        end before the box. Raises `BackendUnavailable`.
        """
        if threading.current_thread() is not threading.main_thread():
            raise BackendUnavailable(
                "boxes end with the thread that starts them: run the event loop in the main thread"
            )
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `gone` closes it
        drops = bool(dropper) and identity.uid is not None
        if drops:
            command = (*identity.words(dropper), *command)
        try:
            launched = subprocess.Popen(  # type: ignore[call-overload]  # noqa: S603 - no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                pass_fds=tuple(descriptors),
                env=environment,
                cwd="/",
                **({} if drops else identity.popen_arguments()),
            )
        except (OSError, subprocess.SubprocessError) as error:
            complaints.close()
            raise BackendUnavailable(f"the launcher cannot be started: {error}") from error
        return cls(launched, complaints, free)

    def complaint(self) -> str:
        """Return the last 2,000 bytes that the launcher printed to stderr."""
        size = os.fstat(self._complaints.fileno()).st_size
        said = os.pread(self._complaints.fileno(), 2000, max(size - 2000, 0))
        return said.decode(errors="replace").strip()

    def find_supervisor(self) -> None:
        """Find the supervisor of the box that has just started. It is process 1 of its PID
        namespace, so it is the last process of the box to end.

        No untrusted code runs yet. If the launcher forked processes before it was moved into the
        cgroup, this call moves these processes too. Raises `OSError`.
        """
        children = process_tree.children(self.pid)
        if children:
            self._inner = children[0]
            with contextlib.suppress(ProcessLookupError):
                self._inner_process = os.pidfd_open(children[0])
        if self._group is not None:
            self._group.add(self.tree)

    def limit(self, group: BoxCgroup) -> None:
        """Put the launcher and its descendants into a cgroup, which is removed with the box.

        Blocks for up to 20 ms. If it raises `OSError`, the box has no cgroup.
        """
        self._group = group
        try:
            group.add(lambda: process_tree.descendants(self.pid))
        except OSError:
            self._group = None
            group.remove()
            raise

    def starved(self) -> bool:
        """Return True if the kernel killed a process of the box for lack of memory since the last
        call."""
        return self._group is not None and self._group.starved()

    def tree(self) -> list[int]:
        """Return the host's ids of the supervisor and its descendants, without the launcher. Empty
        before `find_supervisor`."""
        return process_tree.descendants(self._inner) if self._inner is not None else []

    def kernel_memory(self) -> int:
        """Return how many bytes the kernel may use for the box's sockets
        (`guest_socket_memory.socket_memory`)."""
        return (
            guest_socket_memory.socket_memory(f"/proc/{self._inner}/net")
            if self._inner is not None
            else 0
        )

    def files_bytes(self) -> int:
        """Return how many bytes of memory the box's files in a tmpfs use, plus `_FILE` bytes for
        each file."""
        found = 0
        for folder in FOLDERS:
            with contextlib.suppress(OSError):
                seen = os.statvfs(f"/proc/{self._inner}/root{folder}")
                found += (seen.f_blocks - seen.f_bfree) * seen.f_frsize
                found += (seen.f_files - seen.f_ffree) * _FILE
        return found

    def commands(self, executor: int) -> set[int]:
        """Return the processes of `tree` that belong to commands: the executor and its descendants.
        ``executor`` is the executor's process id inside the box."""
        if self._inner is None or not executor:
            return set()
        found = process_tree.with_inner_pid(process_tree.children(self._inner), executor)
        return set(process_tree.descendants(found)) if found is not None else set()

    def kill(self) -> None:
        """Kill all processes of the box; see `BoxProcesses.kill`."""
        if self._inner_process is not None:
            # Only the supervisor is killed. Then the launcher waits for it and ends. If the
            # launcher ended first, the supervisor would become a zombie of the machine's init,
            # and in a container the init often does not wait for zombies.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._inner_process, signal.SIGKILL)
        else:
            self._kill_launcher()

    async def gone(self) -> None:
        """Kill all processes and wait until they have ended; see `BoxProcesses.gone`."""
        self.kill()
        for process in (self._inner_process, self._launcher()):
            if process is not None:
                with anyio.move_on_after(_FOLLOW_TIMEOUT_S) as waited:
                    await _ended(process)
                if waited.cancelled_caught:
                    self._kill_launcher()
                os.close(process)
        self._inner_process = None
        if not self._freed:
            self._freed = True
            self._launched.poll()
            self._complaints.close()
            if self._group is not None:
                self._group.remove()
            self._free()

    def _launcher(self) -> int | None:
        return os.pidfd_open(self.pid) if self._launched.poll() is None else None

    def _kill_launcher(self) -> None:
        if self._launched.poll() is None:
            self._launched.send_signal(signal.SIGKILL)


async def _ended(process: int) -> None:
    """Wait until a process has ended. ``process`` is its pidfd."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(process, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(process)
