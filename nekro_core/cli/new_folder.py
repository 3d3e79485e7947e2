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
    """Nothing was written. The text says why and what to give instead."""


def is_name(text: str) -> bool:
    """Whether a text can be the name of a module and stand in a key."""
    return bool(_NAME.match(text)) and not keyword.iskeyword(text)


def require_name(what: str, name: str, *, lower_case: bool = False) -> None:
    """Raises `NewRefused` for a name that cannot be a module's, or is not one in lower case."""
    if not is_name(name) or (lower_case and not _LOWER.match(name)):
        letters = "at most 32 lower-case letters, digits" if lower_case else "letters, digits"
        raise NewRefused(
            f"the {what} {name!r} cannot be used: {letters} and '_' are possible, a letter first, "
            "no word of Python"
        )


def write_folder(
    folder: Path, name: str, templates: Mapping[str, str], package: str, known: Mapping[str, str]
) -> list[Path]:
    """Write ``folder/name`` and return its files.

    ``templates`` gives for each path in it a file of the folder ``template`` of ``package``; both
    may contain ``$name`` and the like, which ``known`` replaces. Raises `NewRefused`, `OSError`.
    """
    target = folder / name
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise NewRefused(f"{target} is there already: take another name, or remove it first")
    written = []
    for path, template in templates.items():
        text = (files(package) / "template" / template).read_text("utf-8")
        file = target / Template(path).substitute(known)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(text).substitute(known), encoding="utf-8")
        written.append(file)
    return written
