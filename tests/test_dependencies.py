"""What the code imports is named in pyproject.toml: a package that only another one brings may
leave with it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("nekro_core", "adapters", "plugins", "examples")
PART_OF = {"mcp-types": "mcp", "pydantic-core": "pydantic"}
"""Packages of one release with another, which names their exact version."""
OPTIONAL = {"bpe-openai", "playwright"}
"""Used where they are, and done without."""


def imported() -> Iterator[tuple[str, Path]]:
    """Each import's first name, but for relative ones, and where it stands."""
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    yield from ((alias.name.partition(".")[0], path) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module.partition(".")[0], path


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    """The packages that a run of the bot, or an extra of it, asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(each for name in extras for each in extras[name] if name != "dev"),
    ]
    return {normal(re.split(r"[\[<>=!~; ]", each, maxsplit=1)[0]) for each in wanted}


def test_every_package_that_is_imported_is_declared() -> None:
    owners = packages_distributions()
    known = declared() | OPTIONAL
    missing = {}
    for name, path in imported():
        if name in sys.stdlib_module_names or name in ROOMS or name.startswith("guest_"):
            continue
        found = {normal(each) for each in owners.get(name, [name])}
        if not found & known and not {PART_OF.get(each, "") for each in found} & known:
            missing[name] = path.relative_to(ROOT)
    assert not missing
