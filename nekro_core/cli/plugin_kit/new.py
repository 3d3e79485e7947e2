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
"""The files that are written, and the template of each file."""


def write_new(folder: Path, name: str, author: str = "") -> list[Path]:
    """Write a new plugin to ``folder/name`` and return the paths of its files. Raises `NewRefused`
    and `OSError`."""
    author = author or _me()
    require_name("name", name)
    require_name("author", author)
    known = {"name": name, "author": author, "title": name.replace("_", " ").capitalize()}
    return write_folder(folder, name, FILES, "nekro_core.cli.plugin_kit", known)


def _me() -> str:
    """Return the login name of the user, in a form that can be a part of a plugin's key."""
    try:
        name = re.sub(r"[^A-Za-z0-9_]", "_", getpass.getuser())
    except (OSError, KeyError):  # in a container, the user may have no name
        name = ""
    return name if is_name(name) else "me"
