"""Lets a process give up the rights that it does not need, before it reads untrusted data.

The kernel enforces the limits, so they hold even if an attacker controls the process.
"""

import ctypes
import resource
import signal
import sys
import sysconfig
from collections.abc import Sequence

from nekro_core.system.confinement.decoder_filter import install
from nekro_core.system.confinement.landlock import (
    EVERY_RIGHT,
    READ_FILE,
    READ_FOLDER,
    take_rights,
)

MEMORY = 1024 * 1024 * 1024
"""The largest address space of a child in bytes. The libraries alone map 300 MB."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_DUMPABLE = 4
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_OWN_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")
_SYSTEM_FOLDERS = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_MOST_FILES = 64


def confine(
    *,
    memory: int,
    seconds: int,
    files_closed: bool = True,
    calls_filtered: bool = True,
    readable: Sequence[str] = (),
) -> bool:
    """Give up files, the network and other processes, and limit memory (in bytes) and processor
    time (in seconds). This cannot be undone.

    Steps that the kernel does not support are skipped. Landlock needs Linux 5.13, user namespaces
    may be switched off, and the kernel may lack filters of system calls. The limits on memory and
    processor time always work. `nekro doctor` lists the missing steps
    (`nekro_core.media.self_check`). With ``files_closed`` and ``calls_filtered``, a test can leave
    out one step to test the other.

    ``readable`` has the files that the process may still open. This needs Landlock. Without
    Landlock, the filter of system calls forbids the process to open any file. Returns whether the
    files of ``readable`` can be opened.
    """
    bounded = confine_parent(memory=memory, files_closed=files_closed, readable=readable)
    opened = bounded and bool(readable)
    set_rlimit(resource.RLIMIT_CPU, seconds)
    if calls_filtered:
        filter_calls(files_read=opened)
    return opened


def confine_parent(*, memory: int, files_closed: bool = True, readable: Sequence[str] = ()) -> bool:
    """Do the steps of `confine` that the children of this process inherit when they are forked. The
    arguments are those of `confine`. Returns whether Landlock limits which files can be opened."""
    set_rlimit(resource.RLIMIT_AS, memory)
    set_rlimit(resource.RLIMIT_FSIZE, 0)
    set_rlimit(resource.RLIMIT_CORE, 0)
    set_rlimit(resource.RLIMIT_NOFILE, _MOST_FILES)
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        # The process gets a network namespace without any network. Making it needs a user
        # namespace.
        library.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
        if files_closed:
            return _close_files(readable)
    return False


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends. If the parent has ended before this
    call, the kernel does nothing. So the caller must check `os.getppid` afterwards."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def set_rlimit(which: int, most: int) -> None:
    """Set the resource limit ``which`` (a constant of `resource`) to ``most``, or to the current
    hard limit if that is lower."""
    _, hard = resource.getrlimit(which)
    least = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (least, least))


def filter_calls(*, files_read: bool = False) -> None:
    """Filter the system calls of this process, as the last step. After this call, the process
    cannot open files (except with ``files_read``), import modules or start processes."""
    if sys.platform == "linux":
        install(ctypes.CDLL(None, use_errno=True), files_read=files_read)


def _close_files(readable: Sequence[str]) -> bool:
    """Give up all rights to files with Landlock, except the right to read ``readable``, Python's
    libraries and the system's libraries. Libraries load parts of themselves when they are first
    used, so they must stay readable. Returns whether the kernel has Landlock."""
    folders = {*map(sysconfig.get_path, _OWN_FOLDERS), *_SYSTEM_FOLDERS}
    kept = [(folder, READ_FILE | READ_FOLDER) for folder in folders]
    return take_rights(EVERY_RIGHT, [*kept, *((path, READ_FILE) for path in readable)])
