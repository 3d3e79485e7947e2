"""Records what a plugin tries while it is checked: programs that it starts, and files that it
writes outside of the throw-away folder of the check.

Python reports such calls to audit hooks (PEP 578) before they are carried out. Actions of native
code and of started programs are not reported.
"""

import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

_MOST = 50
"""Maximum number of attempts that are recorded."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Mapping[str, int] = MappingProxyType(
    {
        "os.mkdir": 1, "os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.link": 2,
        "os.symlink": 2, "os.truncate": 1, "os.chmod": 1, "os.chown": 1, "os.utime": 1,
    }
)  # fmt: skip
"""Events that change files, and how many of their first arguments are paths."""
_PROGRAMS: Mapping[str, int] = MappingProxyType(
    {"subprocess.Popen": 1, "os.system": 0, "os.exec": 1, "os.posix_spawn": 1, "os.spawn": 2}
)
"""Events that start a program, and the place of the command among their arguments."""
_SHELLS = frozenset({"sh", "bash", "dash"})
_SHELL_AND = re.compile(r"&&|\|\||[;|\n]")
_PIP = re.compile(r"pip(3(\.\d+)?)?")
_HARMLESS = ("/dev/", "/proc/self/")
_PIP_TAKES_VALUE = frozenset(
    {"-i", "--index-url", "--extra-index-url", "--trusted-host", "-t", "--target", "--timeout",
     "--retries", "--proxy", "--cache-dir", "--prefix", "--root", "-c", "--constraint", "-f",
     "--find-links", "--progress-bar", "--platform", "--python-version", "-r", "--requirement"}
)  # fmt: skip


class Attempt(msgspec.Struct, frozen=True):
    """One action that a plugin tried. ``where`` is the ``file:line`` of the plugin's code. If the
    action starts pip, ``packages`` are the requirements that pip would install. ``deeds`` has the
    content of ``text`` as pairs: a word such as ``starts`` or ``removes``, and its object."""

    text: str
    where: str
    packages: list[str] = []
    deeds: list[tuple[str, str]] = []


class AttemptLog:
    """Records the attempts of one plugin. `start` begins the recording, which cannot be ended."""

    def __init__(self, plugin: Path, throw_away: Path, *, refuse: bool) -> None:
        """``plugin`` is the folder or file whose code is watched. Writing below ``throw_away`` is
        allowed and is not recorded. With ``refuse``, each attempt raises `PermissionError`; this is
        for a machine whose kernel cannot refuse such actions."""
        self.found: list[Attempt] = []
        self._plugin = str(plugin)
        self._free = str(throw_away)
        self._refuse = refuse
        self._inside = threading.local()

    def start(self) -> None:
        """Record from now on."""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        describe = _EVENTS.get(event)
        if describe is None or getattr(self._inside, "hearing", False):
            return
        self._inside.hearing = True  # Calls that this method itself makes are not recorded.
        try:
            attempt = self._attempt(event, arguments, describe)
        finally:
            self._inside.hearing = False
        if attempt is not None and self._refuse:
            raise PermissionError(f"a check lets no plugin do this: {attempt.text}")

    def _attempt(
        self, event: str, arguments: tuple[Any, ...], describe: "_Describe"
    ) -> Attempt | None:
        deeds: list[tuple[str, str]] = []
        packages: list[str] = []
        for part in describe(event, arguments):
            if isinstance(part, list):
                deeds.append(("starts", shlex.join(part)))
                packages += pip_packages(part)
            elif part and not self._is_free(part):
                deeds.append((DEEDS.get(event, "changes"), part))
        where = self._where(sys._getframe(2)) if deeds else ""  # noqa: SLF001 - it is documented
        if not where:
            return None
        text = " and ".join(f"{_WORDS.get(deed, deed)} {what}" for deed, what in deeds)
        attempt = Attempt(text, where, packages, deeds)
        if attempt not in self.found and len(self.found) < _MOST:
            self.found.append(attempt)
        return attempt

    def _is_free(self, path: str) -> bool:
        if os.path.normpath(path).startswith(_HARMLESS):
            return True
        whole = os.path.realpath(path)
        return whole == self._free or whole.startswith(f"{self._free}/")

    def _where(self, frame: FrameType | None) -> str:
        """Return the innermost ``file:line`` of the plugin's own code on the stack; empty if there
        is none."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file == self._plugin or file.startswith(f"{self._plugin}/"):
                return f"{file}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


def pip_packages(command: Iterable[str]) -> list[str]:
    """Return the requirements in a command that runs ``pip install``, without addresses and
    folders; an empty list for any other command."""
    words = [*command]
    if "install" not in words:
        return []
    at = words.index("install")
    if not any(_PIP.fullmatch(Path(word).name) for word in words[:at]):
        return []
    found, skip = [], False
    for word in words[at + 1 :]:
        if skip or word.startswith("-"):
            skip = not skip and word in _PIP_TAKES_VALUE
            continue
        try:
            wanted = Requirement(word)
        # The word is not a requirement, but for example an address or a folder.
        except InvalidRequirement:
            continue
        if not wanted.url:
            found.append(str(wanted))
    return found


_Describe = Callable[[str, tuple[Any, ...]], Iterator[str | list[str]]]
"""Yields the paths that a call changes as texts, and the commands that it starts as lists."""


def _text(value: Any) -> str:
    """Return a path or word of a call as text; empty for any other value, such as a file
    descriptor."""
    return os.fsdecode(value) if isinstance(value, str | bytes | os.PathLike) else ""


def _opened(_: str, arguments: tuple[Any, ...]) -> Iterator[str]:
    path, _mode, flags = arguments[:3]
    if isinstance(flags, int) and flags & _WRITES:
        yield _text(path)


def _changed(event: str, arguments: tuple[Any, ...]) -> Iterator[str]:
    yield from map(_text, arguments[: _CHANGES[event]])


def _database(_: str, arguments: tuple[Any, ...]) -> Iterator[str]:
    path = _text(arguments[0])
    if path != ":memory:":
        yield path.removeprefix("file:").partition("?")[0]


def _started(event: str, arguments: tuple[Any, ...]) -> Iterator[list[str]]:
    command = arguments[_PROGRAMS[event]]
    if isinstance(command, list | tuple):
        words = [*map(_text, command)]
        if len(words) < 3 or words[1] != "-c" or Path(words[0]).name not in _SHELLS:
            yield words
            return
        command = words[2]
    for part in _SHELL_AND.split(_text(command)):
        try:
            yield shlex.split(part)
        # The text is not a valid command, for example because a quote is not closed.
        except ValueError:
            yield [part]


_EVENTS: Mapping[str, _Describe] = MappingProxyType(
    {
        "open": _opened,
        "sqlite3.connect": _database,
        **dict.fromkeys(_CHANGES, _changed),
        **dict.fromkeys(_PROGRAMS, _started),
    }
)
DEEDS: Mapping[str, str] = MappingProxyType(
    {
        "open": "opens", "sqlite3.connect": "database", "os.mkdir": "makes",
        "os.remove": "removes", "os.rmdir": "removes", "os.rename": "moves", "os.link": "links",
        "os.symlink": "links",
    }
)  # fmt: skip
_WORDS: Mapping[str, str] = MappingProxyType(
    {"opens": "opens for writing", "database": "opens the database"}
)
