"""Finds the files that a plugin itself has written into its folder, so that an update keeps them
and does not report them as changes by somebody else."""

import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

_CODE = frozenset(
    {".py", ".pyi", ".so", ".sh", ".js", ".mjs", ".css", ".html", ".j2", ".jinja", ".jinja2"}
)
GONE = "gone as a whole"
_LISTS = frozenset({"requirements.txt", "pyproject.toml", "_manifest.json", "manifest.json"})


def is_code(name: str) -> bool:
    """Return True if a file, judged by its name, is code of a plugin or a list of requirements. The
    plugin itself writes only other files: configuration and data."""
    path = PurePosixPath(name)
    return path.suffix.lower() in _CODE or path.name in _LISTS


def changes_of_others(lines: list[str]) -> list[str]:
    """Return those lines of `InstallRecords.changed_since` that are about files which the plugin
    did not write itself."""
    return [line for line in lines if not _is_own(line)]


def _is_own(line: str) -> bool:
    word, _, name = line.partition(" ")
    return word in ("changed", "new", "gone") and line != GONE and not is_code(name)


def kept_files(
    recorded: Mapping[str, str], here: Mapping[str, str], fresh: Mapping[str, str]
) -> list[str]:
    """Return the data files whose present content an update keeps: files that the plugin has made,
    and files that were changed here and that are the same in the old and the new version. The
    mappings have digests by path: ``recorded`` of the installed version, ``here`` of the present
    files, and ``fresh`` of the new version."""
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
