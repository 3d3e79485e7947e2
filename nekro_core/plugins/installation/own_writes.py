"""Tells what a plugin itself writes into its folder from what somebody changed there, and keeps it
in an update."""

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_CODE = frozenset(
    {".py", ".pyi", ".so", ".sh", ".js", ".mjs", ".css", ".html", ".j2", ".jinja", ".jinja2"}
)
GONE = "gone as a whole"
_LISTS = frozenset({"requirements.txt", "pyproject.toml", "_manifest.json", "manifest.json"})


def is_code(name: str) -> bool:
    """Whether a file, by its path, is code of a plugin or a list of what it needs. A plugin writes
    its configuration and data into other files."""
    path = PurePosixPath(name)
    return path.suffix.lower() in _CODE or path.name in _LISTS


def changes_of_others(lines: list[str]) -> list[str]:
    """The lines of `InstallRecords.changed_since` about files that the plugin did not write
    itself."""
    return [line for line in lines if not _is_own(line)]


def _is_own(line: str) -> bool:
    word, _, name = line.partition(" ")
    return word in ("changed", "new", "gone") and line != GONE and not is_code(name)


def kept_files(
    recorded: Mapping[str, str], here: Mapping[str, str], fresh: Mapping[str, str]
) -> list[str]:
    """The data files that an update keeps as they are here: those that the plugin made, and those
    that were changed here and not by the new version. The mappings have digests by path: of the
    installed version, of the files now, and of the new version."""
    return [
        name
        for name, digest in here.items()
        if not is_code(name)
        and digest != recorded.get(name)
        and fresh.get(name) == recorded.get(name)
    ]


def keep_files(place: Path, fresh: Path, names: list[str]) -> None:
    """Copy files from the installed plugin to the new version. Raises `OSError`."""
    for name in names:
        (fresh / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place / name, fresh / name, follow_symlinks=False)
