"""Implements ``nekro plugin new``: writes a working plugin with a test."""

import getpass
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from nekro_core.cli.new_folder import is_name, require_name, write_folder

FILES: Mapping[str, str] = MappingProxyType(
    {
        "__init__.py": "plugin.py.txt",
        "tests/test_$name.py": "test_plugin.py.txt",
        "README.md": "README.md.txt",
        "pytest.ini": "pytest.ini.txt",
    }
)
"""The files that are written, each with its template."""


def write_new(folder: Path, name: str, author: str = "") -> list[Path]:
    """Write a plugin into ``folder/name`` and return its files. Raises `NewRefused`."""
    author = author or _me()
    require_name("name", name)
    require_name("author", author)
    known = {"name": name, "author": author, "title": name.replace("_", " ").capitalize()}
    return write_folder(folder, name, FILES, "nekro_core.cli.plugin_kit", known)


def _me() -> str:
    """Return the user's name in a form that a plugin's key allows."""
    try:
        name = re.sub(r"[^A-Za-z0-9_]", "_", getpass.getuser())
    except (OSError, KeyError):  # a container's user may have no name
        name = ""
    return name if is_name(name) else "me"
