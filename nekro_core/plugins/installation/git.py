"""Clones one commit of a git repository. No code of the repository runs, and its size is
limited."""

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from nekro_core.plugins.installation.files import MOST_BYTES, MOST_FILES
from nekro_core.system.errors import NekroError
from nekro_core.system.thread_cancellation import stop_if_cancelled

GIT_S = 300.0
_LOOK_S = 0.05
"""Seconds between two checks of a clone's size. A fast disk writes about 50 MB between them."""
_SAID_BYTES = 4_000_000
"""Maximum number of bytes of git's output, for example the list of a plugin's files or messages of
the server."""
_MEMORY_BYTES = 2 * 1024**3
"""Memory limit for git, because a few bytes of a pack may expand to gigabytes in memory."""
_SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false", "-c",
    "protocol.ext.allow=never", "-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false",
)  # fmt: skip


class GitFailed(NekroError):
    """The repository cannot be cloned. The text says why."""


def clone(address: str, ref: str, target: Path, *, most_bytes: int = MOST_BYTES) -> str:
    """Clone the newest commit of a branch or tag, or of the default branch, and return its id.

    The size of the download is checked while git runs, and the size of the files is checked before
    the checkout. Both may be at most ``most_bytes``. Each of the four git commands may take `GIT_S`
    seconds; this function blocks until they end. Raises `GitFailed`.
    """
    branch = ("--branch", ref) if ref else ()
    within = ["git", *_SAFE, "-C", str(target)]
    how = ("--quiet", "--depth", "1", "--no-tags", "--no-checkout", *branch, "--")
    _git(["git", *_SAFE, "clone", *how, address, str(target)], target, most_bytes)
    # A hostile repository may contain the same folder a thousand times on each level, and git would
    # need unlimited memory to check it out. So the files are listed first, and the size of the list
    # is limited.
    listed = _git([*within, "ls-tree", "-r", "-l", "-z", "HEAD"], target, most_bytes)
    sizes = [entry.split()[3] for entry in listed.split("\0") if entry]
    if len(sizes) > MOST_FILES or sum(int(each) for each in sizes if each != "-") > most_bytes:
        raise _too_much(most_bytes)
    _git([*within, "checkout", "--quiet", "--force", "HEAD", "--"], target, 2 * most_bytes)
    return _git([*within, "rev-parse", "HEAD"], target, 2 * most_bytes).strip()


def _too_much(most_bytes: int) -> GitFailed:
    return GitFailed(
        f"it is over {MOST_FILES} files or {most_bytes} bytes: expected a repository that holds a "
        "plugin; give its folder or a zip of it instead"
    )


def _git(command: Sequence[str], target: Path, most_bytes: int) -> str:
    quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        try:
            child = subprocess.Popen(  # noqa: S603 - no shell, and addresses come after --
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=complained, env=quiet,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise GitFailed("there is no git here: install it, or give a folder or zip") from None
        try:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(child.pid, resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
            _watch(child, target, most_bytes, (said, complained))
        finally:
            _end(child)
        if child.returncode:
            raise GitFailed(f"git failed: {' / '.join(_text(complained).splitlines()[-3:])}")
        return _text(said)


def _watch(
    child: subprocess.Popen[bytes], target: Path, most_bytes: int, heard: Sequence[IO[bytes]]
) -> None:
    until = time.monotonic() + GIT_S
    while time.monotonic() < until:
        # WNOWAIT leaves the child as a zombie. So the system cannot reuse its id before `_end` has
        # killed its process group.
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if not _fits(target, most_bytes):
            raise _too_much(most_bytes)
        if any(os.fstat(each.fileno()).st_size > _SAID_BYTES for each in heard):
            raise _too_much(most_bytes)
        if ended:
            return
        stop_if_cancelled()
        time.sleep(_LOOK_S)
    raise GitFailed(f"git took over {GIT_S:g} s")


def _fits(folder: Path, most_bytes: int) -> bool:
    """Return True if a folder is within the limits. It may have twice as many files as a plugin,
    because git adds its own files."""
    count = size = 0
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        size += entry.stat(follow_symlinks=False).st_size
                    if size > most_bytes or count > 2 * MOST_FILES:
                        return False
        except FileNotFoundError:  # git has deleted a temporary file in the meantime
            continue
    return True


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill git and the helper processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _text(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read(_SAID_BYTES).decode("utf-8", "replace").strip()
