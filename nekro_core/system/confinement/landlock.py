"""Takes rights to files from this process with Landlock. Source: `man 7 landlock`."""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 1, 1 << 2, 1 << 3
EVERY_RIGHT = (1 << 16) - 1
"""All rights to files that Landlock can take, in the newest version that this module knows."""
WRITE_RIGHTS = EVERY_RIGHT & ~(1 << 0 | READ_FILE | READ_FOLDER | 1 << 15)
"""The rights to write, truncate, make, move and remove files. The rights to execute files, to read
and to control devices are not among them."""

_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_ASK_VERSION = 1
_KNOWN_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""How many of the rights to files each version of Landlock knows, one bit each."""
_NEWEST_RIGHTS = 16
_RIGHTS_OF_FILES = 1 << 0 | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15
"""The rights that a rule for a single file may have. All other rights apply only to folders."""


def take_rights(taken: int, kept: Iterable[tuple[Path | str, int]]) -> bool:
    """Remove rights to files (``taken``) from this thread, and from all threads and processes that
    it starts later. They cannot be given back. ``kept`` has pairs of a path and rights. These
    rights stay for the path and for everything below it.

    A path that does not exist is skipped. Returns False, and removes nothing, if this kernel has no
    Landlock.
    """
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    version = library.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    if version < 1:
        return False
    known = (1 << _KNOWN_RIGHTS.get(version, _NEWEST_RIGHTS)) - 1
    ruled = ctypes.c_uint64(taken & known)
    rules = library.syscall(
        _CREATE_RULESET, ctypes.byref(ruled), ctypes.c_size_t(ctypes.sizeof(ruled)), 0
    )
    if rules < 0:
        return False
    try:
        for path, rights in kept:
            with suppress(OSError):  # Some systems lack some of the folders.
                _add_rule(library, rules, path, rights & ruled.value)
        library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(library.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _add_rule(library: ctypes.CDLL, rules: int, path: Path | str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not Path(path).is_dir():
            rights &= _RIGHTS_OF_FILES
        rule = struct.pack("=Qi", rights, place)
        library.syscall(_ADD_RULE, rules, _PATH_BENEATH, rule, 0)
    finally:
        os.close(place)
