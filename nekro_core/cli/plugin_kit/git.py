"""Clones one commit of a repository. Runs no code of it, and limits its size."""

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

from nekro_core.cli.plugin_kit.files import MOST_BYTES, MOST_FILES
from nekro_core.system.errors import NekroError

GIT_S = 300.0
_LOOK_S = 0.05
"""Seconds between two checks of a clone's size. A fast disk writes about 50 MB between them."""
_SAID_BYTES = 4_000_000
"""Most bytes of git's output: the list of a plugin's files, or the server's messages."""
_MEMORY_BYTES = 2 * 1024**3
"""Memory limit for git. A few bytes of a pack may expand to gigabytes, which git would hold in
memory."""
_SAFE = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false", "-c",
    "protocol.ext.allow=never", "-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false",
)  # fmt: skip


class GitFailed(NekroError):
    """The repository cannot be cloned. The text says why."""


def clone(address: str, ref: str, target: Path, *, most_bytes: int = MOST_BYTES) -> str:
    """Clone the newest commit of a branch or tag, or of the default branch, and return its id.

    The download is measured while it runs, and the size of the files before they are checked out.
    Each is at most ``most_bytes``. Blocks for at most a few times `GIT_S`. Raises `GitFailed`.
    """
    branch = ("--branch", ref) if ref else ()
    within = ["git", *_SAFE, "-C", str(target)]
    how = ("--quiet", "--depth", "1", "--no-tags", "--no-checkout", *branch, "--")
    _git(["git", *_SAFE, "clone", *how, address, str(target)], target, most_bytes)
    # A tree may name a folder a thousand times, and that folder another one. The size of the list
    # is limited; the memory that git would need to check out such a tree is not.
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
            child = subprocess.Popen(  # noqa: S603 - no shell, and addresses stand behind --
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
        # The child is not reaped before its process group is killed, so its id is not reused.
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if not _fits(target, most_bytes):
            raise _too_much(most_bytes)
        if any(os.fstat(each.fileno()).st_size > _SAID_BYTES for each in heard):
            raise _too_much(most_bytes)
        if ended:
            return
        time.sleep(_LOOK_S)
    raise GitFailed(f"git took over {GIT_S:g} s")


def _fits(folder: Path, most_bytes: int) -> bool:
    """Whether a folder is within the limits: twice the number of files, since git adds its own."""
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
        except FileNotFoundError:  # git's own temporary files come and go
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
