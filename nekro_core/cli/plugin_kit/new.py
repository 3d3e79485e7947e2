"""``nekro plugin new``: a plugin that works, with a test, to begin from."""

import getpass
import keyword
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from types import MappingProxyType

from nekro_core.system.errors import NekroError

FILES: Mapping[str, str] = MappingProxyType(
    {
        "__init__.py": "plugin.py.txt",
        "tests/test_$name.py": "test_plugin.py.txt",
        "README.md": "README.md.txt",
        "pytest.ini": "pytest.ini.txt",
    }
)
"""What is written, and the template that it is made from."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)


class NewRefused(NekroError):
    """Nothing was written; says why and what to give instead."""


def write_new(folder: Path, name: str, author: str = "") -> list[Path]:
    """Write a plugin into ``folder/name``; gives the files. Raises `NewRefused`."""
    author = author or _me()
    for what, value in (("name", name), ("author", author)):
        if not _NAME.match(value) or keyword.iskeyword(value):
            raise NewRefused(
                f"the {what} {value!r} cannot be used: letters, digits and '_' are possible, a "
                "letter first, no word of Python"
            )
    target = folder / name
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise NewRefused(f"{target} is there already: take another name, or remove it first")
    known = {"name": name, "author": author, "title": name.replace("_", " ").capitalize()}
    written = []
    for path, template in FILES.items():
        text = (files("nekro_core.cli.plugin_kit") / "template" / template).read_text("utf-8")
        file = target / Template(path).substitute(known)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(known), encoding="utf-8")
        written.append(file)
    return written


def _me() -> str:
    """Who works here, as far as that can stand in a plugin's key."""
    try:
        name = re.sub(r"[^A-Za-z0-9_]", "_", getpass.getuser())
    except (OSError, KeyError):  # a container's user may have no name
        name = ""
    return name if _NAME.match(name) else "me"
