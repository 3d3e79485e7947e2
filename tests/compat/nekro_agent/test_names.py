"""This file generates `docs/nekro-names.md` from the code and tests that the page agrees with the
code.

``NEKRO_WRITE_PAGES=1 pytest tests/compat/nekro_agent/test_names.py`` writes the page again.
"""

import importlib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nekro_core.compat.nekro_agent.imports import install_facades
from nekro_core.compat.nekro_agent.refused import REFUSED
from nekro_core.plugins.packages.nekro_agent_environment import PACKAGES
from nekro_core.plugins.packages.own_environment import bot_version

NAMES = tomllib.loads((Path(__file__).parent / "names.toml").read_text(encoding="utf-8"))
PARTLY: dict[str, str] = NAMES["partly"]
NOT: dict[str, str] = NAMES["not"]
PAGE = Path(__file__).parents[3] / "docs" / "nekro-names.md"
HEAD = """\
# Names of existing plugins

Every name that plugins written for Nekro Agent use, as `from nekro_agent... import ...` or as a
member of what they get, and what becomes of it here. A test makes this page from the code
(`tests/compat/nekro_agent/test_names.py`). A name that another module has is imported from there.
Names that stand nowhere on it are an `ImportError` or an `AttributeError` that says what there is.
How to write a plugin: [plugins.md](plugins.md).

Plugins also tell the model what it finds in its box. While such a plugin is loaded, the code there
finds the variable `_ck` (the chat key), the functions `send_msg_text(_ck, text)` and
`send_msg_file(_ck, path)`, and a folder "shared", which is the home folder. The prompt does not
list them.

SQL of plugins on Tortoise's connection `default` (`Tortoise.get_connection("default")`) reads two
tables, `chat_message` and `chat_channel`, with columns of `DBChatMessage` and `DBChatChannel`. It
has `execute_query` and `execute_query_dict`, for one SELECT that takes at most 5 s and returns at
most 10,000 rows. On SQLite, times are text in UTC. Anything else is an `OperationalError` that says
what to use instead.

"""
REFUSED_HEAD = """
## What is not here

Importing one of these names, or what is below one of these modules, is an `ImportError` with the
text of the second column.

| name | what to use instead |
|---|---|
"""

ENVIRONMENT = """\
## Packages of Nekro Agent's environment

Nekro Agent's environment always has these packages, and plugins import them without naming them.
`nekro plugin check` says which of them a plugin needs, and `nekro plugin install` adds them to the
folder of plugins' packages. Nobody edits the plugin. A package comes in the newest version that
fits the bot's own packages, which stay as they are. Where the major version differs, it is
**bold**: a plugin that uses what has changed since must be updated by its author. `nekro-agent`
itself among a plugin's requirements is this framework, whatever version is asked for.

The versions there are those of nekro-agent 2.4.0, the versions here those of November 2026.

| package | imported as | there | here | |
|---|---|---|---|---|
"""


def test_the_page_agrees_with_the_code() -> None:
    page = written()
    if os.environ.get("NEKRO_WRITE_PAGES"):
        PAGE.write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page


def test_every_partial_or_missing_name_is_on_the_page() -> None:
    known = {f"{place} {name}" for place, name, _ in found()}
    assert set(PARTLY) | set(NOT) <= known


def test_every_listed_name_exists_or_is_marked_as_missing() -> None:
    missing = [(place, name) for place, name, there in found() if not there]
    assert [each for each in missing if " ".join(each) not in NOT] == []


def test_the_listed_versions_of_the_bots_own_packages_are_true() -> None:
    project = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    needs = {
        canonicalize_name(Requirement(each).name) for each in project["project"]["dependencies"]
    }
    own = [each for each in PACKAGES if canonicalize_name(each.name) in needs]
    assert len(own) >= 8
    for each in own:
        parts = each.here.count(".") + 1
        assert bot_version(each.name).split(".")[:parts] == each.here.split("."), each.name


def written() -> str:
    lines = [HEAD.rstrip(), ""]
    before = ""
    for place, name, there in found():
        if place != before:
            lines += ["", f"## `{place}`", "", "| name | |", "|---|---|"]
            before = place
        lines.append(f"| `{name}` | {status(place, name, there)} |")
    lines += ["", *REFUSED_HEAD.splitlines()]
    lines += [f"| `{entry.replace(':', ' ')}` | {remedy} |" for entry, remedy in REFUSED.items()]
    lines += ["", "", *_environment()]
    return "\n".join(lines) + "\n"


def _environment() -> Iterator[str]:
    yield from ENVIRONMENT.splitlines()
    for each in PACKAGES:
        modules = ", ".join(f"`{module}`" for module in each.modules)
        here = f"**{each.here}**" if each.differs else each.here
        yield f"| `{each.name}` | {modules} | {each.there} | {here} | {each.note} |"


def status(place: str, name: str, there: bool) -> str:
    if not there:
        return f"not: {NOT[f'{place} {name}']}"
    partly = PARTLY.get(f"{place} {name}")
    return f"partly: {partly}" if partly else "works"


def found() -> Iterator[tuple[str, str, bool]]:
    with install_facades():
        for path, names in NAMES["modules"].items():
            module = importlib.import_module(path)
            for name in names.split():
                yield path, name, _there(module, name)
        for place, (behind, names) in NAMES["members"].items():
            path, _, owner = behind.partition(":")
            thing = getattr(importlib.import_module(path), owner)
            for name in names.split():
                yield place, name, _there(thing, name)


def _there(thing: Any, name: str) -> bool:
    try:
        return name in {*_declared(thing), *dir(thing)} or hasattr(thing, name)
    except ImportError:
        return False


def _declared(thing: Any) -> Iterator[str]:
    """The attributes that instances of a class have and the class object does not have."""
    if isinstance(thing, type):
        for fields in ("model_fields", "__dataclass_fields__", "FIELDS"):
            yield from getattr(thing, fields, ())
        for each in thing.__mro__:
            yield from _INSTANCE.get(each.__name__, ())


_INSTANCE = {
    # Attributes that only `__init__` sets.
    "NekroPlugin": ("name", "module_name", "support_adapter", "sandbox_methods", "is_enabled"),
    "BoxFileSystem": ("chat_key", "container_key"),
    "AsyncTaskHandle": ("is_cancelled",),
    "LegacyAdapter": ("key",),
}
