"""Checks the layout: no file is outside of a room, and every function that ARCHITECTURE.md names
exists."""

import ast
import re
from pathlib import Path

from tests.house.tree import Definition, Tree, statements

LOOSE = frozenset(("__init__.py", "__main__.py", "py.typed"))
API = (
    *("adapter", "chat", "content", "core", "i18n", "llm", "message", "plugin", "reactive"),
    *("recurring_timer", "schemas", "secrets", "signal", "speech", "timer", "turn_log", "vectors"),
)
"""The module paths of `nekro_core.api` that adapters and plugins import."""
PAGES = ("ARCHITECTURE.md",)
HOP = re.compile(r"`([\w./-]+\.py): ([A-Za-z_][\w.]*)(?:\(\))?`")
PATH = re.compile(r"`((?:nekro_core|adapters|plugins|tests)/[\w./-]+)(?=[`:])")
"""Matches the path of a file or folder. A colon and a name in the file may follow the path. A path
with capitals, such as `adapters/NAME/`, is a placeholder and is not checked."""
FEWEST_HOPS = 8
"""The least number of functions that ARCHITECTURE.md must name. The page now names a function for
each of 14 hops. If it names fewer than 8, a part of it was lost."""


def loose_files(root: Path) -> list[str]:
    """Files directly in `nekro_core` that belong into a room."""
    found = (path for path in (root / "nekro_core").iterdir() if path.is_file())
    return [f"nekro_core/{path.name}" for path in sorted(found) if path.name not in LOOSE]


def wrong_hops(tree: Tree, root: Path) -> list[str]:
    """Functions that ARCHITECTURE.md names and that do not exist."""
    pages = _pages(root)
    found = [] if pages else ["ARCHITECTURE.md is not there"]
    for page in pages:
        text = page.read_text("utf-8")
        hops = [(match, 1 + text.count("\n", 0, match.start())) for match in HOP.finditer(text)]
        if len(hops) < FEWEST_HOPS:
            found.append(f"{page.name} names {len(hops)} functions, of at least {FEWEST_HOPS} hops")
        by_path = {module.path: module for module in tree}
        for hop, line in hops:
            path, name = hop.groups()
            where = f"{page.name}:{line}: "
            if path not in by_path:
                found.append(f"{where}{path} is not there")
            elif name not in by_path[path].bindings and not _defines(
                by_path[path].ast.body, name.split(".")
            ):
                found.append(f"{where}{path} has no {name}")
    return found


def missing_paths(root: Path) -> list[str]:
    """Files and folders that ARCHITECTURE.md names and that do not exist.

    A path may begin at the project's root or at `nekro_core`.
    """
    return [
        f"{page.name}:{number}: {path} is not there"
        for page in _pages(root)
        for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1)
        for path in PATH.findall(line)
        if path == path.lower()
        and not any((start / path).exists() for start in (root, root / "nekro_core"))
    ]


def _pages(root: Path) -> list[Path]:
    return [root / page for page in PAGES if (root / page).is_file()]


def _defines(body: list[ast.stmt], names: list[str]) -> bool:
    here = (each for each in statements(body) if isinstance(each, Definition))
    return any(
        each.name == names[0] and (not names[1:] or _defines(each.body, names[1:])) for each in here
    )
