"""Finds files by a pattern, without a shell. The search never leaves the folder in which it
begins."""

from __future__ import annotations

import fnmatch
import json
import os
import re

import guest_files

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEPTH = 64
_LOOKED_AT = 200_000
_WILD = re.compile(r"[*?\[]")


def find(pattern: str, directory: str, limit: int) -> tuple[dict[str, Any], bytes]:
    """Return the reply, and a JSON list of the first ``limit`` matches; see `Box.glob`."""
    if not pattern or "\0" in pattern or len(pattern) > 4096:
        raise guest_files.FileError("invalid_input", f"not a pattern: {pattern[:80]!r}")
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        raise guest_files.FileError(
            "invalid_input", f"a pattern must have a name and must not have '..': {pattern}"
        )
    before = "/" if pattern.startswith("/") else ""
    # Open the folder of the search first: if it is missing, this raises an error. If a folder that
    # the pattern names is missing, this is no error: then nothing matches.
    start = guest_files.open_folder(directory)
    fixed = 0
    while fixed < len(parts) - 1 and not _WILD.search(parts[fixed]):
        fixed += 1
    prefix = before + "/".join(parts[:fixed])
    if prefix:
        os.close(start)
        try:
            start = guest_files.open_folder(os.path.join(directory, prefix))
        except guest_files.FileError as error:
            if error.code in ("not_found", "invalid_input"):
                return {"truncated": False}, b"[]"
            raise
    walk = _Walk(parts[fixed:], only_folders=pattern.endswith("/"))
    try:
        walk.visit(start, prefix and prefix.rstrip("/") + "/", walk.open_parts(0), 0)
    finally:
        os.close(start)
    found = sorted(walk.found)
    shown = [os.fsencode(path).decode("utf-8", "replace") for path in found[:limit]]
    reply = {"truncated": walk.cut_short or len(found) > limit}
    return reply, json.dumps(shown).encode()


class _Walk:
    def __init__(self, parts: list[str], only_folders: bool) -> None:
        self.found: set[str] = set()
        self.cut_short = False
        self._only_folders = only_folders
        self._looked_at = 0
        self._parts = ["**" if part == "**" else _matcher(part) for part in parts]

    def open_parts(self, first: int) -> set[int]:
        """Return the numbers of the pattern's parts that a name may match when part ``first`` is
        next. A `**` may stand for no folder, so if part ``first`` is `**`, the name may also match
        the part after it."""
        found = {first}
        while self._parts[first] == "**" and first + 1 < len(self._parts):
            first += 1
            found.add(first)
        return found

    def visit(self, folder: int, path: str, positions: set[int], depth: int) -> None:
        """Match the files and folders in an open folder. ``positions`` has the numbers of the parts
        that their names may match."""
        if depth > _DEPTH:
            self.cut_short = True
            return
        try:
            entries = list(os.scandir(folder))
        except OSError:
            return  # A folder that cannot be read has no matches.
        for entry in entries:
            self._looked_at += 1
            if self._looked_at > _LOOKED_AT:
                self.cut_short = True
                return
            is_folder = entry.is_dir(follow_symlinks=False)
            matched, inner = self._match(entry.name, positions)
            if matched and (is_folder or not self._only_folders):
                self.found.add(path + entry.name)
            if inner and is_folder:
                self._enter(folder, entry.name, path, inner, depth)

    def _match(self, name: str, positions: set[int]) -> tuple[bool, set[int]]:
        """Return whether ``name`` completes a match of the whole pattern. If ``name`` is a folder,
        the second value says which parts the names inside it may match."""
        matched = False
        inner: set[int] = set()
        last = len(self._parts) - 1
        for position in positions:
            part = self._parts[position]
            if part == "**":
                if not name.startswith("."):
                    matched = matched or position == last
                    inner |= self.open_parts(position)
            elif part(name):
                matched = matched or position == last
                if position < last:
                    inner |= self.open_parts(position + 1)
        return matched, inner

    def _enter(self, folder: int, name: str, path: str, inner: set[int], depth: int) -> None:
        try:
            opened = os.open(name, guest_files.FOLDER_FLAGS, dir_fd=folder)
        except OSError:
            return
        try:
            self.visit(opened, f"{path}{name}/", inner, depth + 1)
        finally:
            os.close(opened)


def _matcher(part: str) -> Any:
    """Make a function that says whether a name matches ``part`` of a pattern. A part with wildcards
    matches hidden names only if the part starts with a dot."""
    if not _WILD.search(part):
        return lambda name: name == part
    compiled = re.compile(fnmatch.translate(part))
    shows_hidden = part.startswith(".")
    return lambda name: (
        (shows_hidden or not name.startswith(".")) and compiled.match(name) is not None
    )
