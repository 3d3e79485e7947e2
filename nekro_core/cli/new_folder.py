"""Writes the folder of a new plugin or adapter from templates."""

import keyword
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template

from nekro_core.system.errors import NekroError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z", re.ASCII)
_LOWER = re.compile(r"[a-z][a-z0-9_]{0,31}\Z", re.ASCII)


class NewRefused(NekroError):
    """The folder cannot be written, and no file was written. The text says why, and what to
    change."""


def is_name(text: str) -> bool:
    """Return True if a text can be a module name and a part of a plugin's key."""
    return bool(_NAME.match(text)) and not keyword.iskeyword(text)


def require_name(what: str, name: str, *, lower_case: bool = False) -> None:
    """Raise `NewRefused` for a name that cannot be a module name. With ``lower_case``, also raise
    it for a name that is not in lower case or is longer than 32 characters."""
    if not is_name(name) or (lower_case and not _LOWER.match(name)):
        letters = "at most 32 lower-case letters, digits" if lower_case else "letters, digits"
        raise NewRefused(
            f"the {what} {name!r} cannot be used: {letters} and '_' are possible, a letter first, "
            "and no keyword of Python"
        )


def write_folder(
    folder: Path, name: str, templates: Mapping[str, str], package: str, known: Mapping[str, str]
) -> list[Path]:
    """Write the folder ``folder/name`` and return the paths of its files.

    ``templates`` maps the path of each new file to the name of its template. The templates are in
    the folder ``template`` of ``package``. Placeholders such as ``$name`` in paths and templates
    are replaced by the values in ``known``. Raises `NewRefused` and `OSError`.
    """
    target = folder / name
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise NewRefused(f"{target} is there already: use another name, or remove it first")
    written = []
    for path, template in templates.items():
        text = (files(package) / "template" / template).read_text("utf-8")
        file = target / Template(path).substitute(known)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(known), encoding="utf-8")
        written.append(file)
    return written
