"""Finds the name ``plugins.FOLDER`` under which the modules of a MaiBot plugin import each other.

MaiBot runs in the folder above ``plugins``, so this name works there.
"""

import re
from pathlib import Path

_IMPORTED = re.compile(
    rb"(?:^|[;:])\s*(?:from|import)\s+plugins\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?"
    rb"|^\s*from\s+plugins\s+import\s+([A-Za-z_]\w*)"
    rb"|import_module\(\s*[\"']plugins\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?",
    re.MULTILINE,
)
_MOST_FILES, _MOST_BYTES = 500, 1024 * 1024


def own_name_of(folder: Path) -> str:
    """Return the name under which the plugin's files import the plugin's own modules, for example
    ``plugins.flowers``; empty if they do not use such a name.

    The author may have given the folder another name, for example a name without ``-main``. The
    author's name is used if no other plugin here has it, and if this folder contains the module.
    """
    for name, module in _imports(folder):
        if name == folder.name:
            return f"plugins.{name}"
        elsewhere = (folder.parent / name).exists() or (folder.parent / f"{name}.py").exists()
        here = (folder / module).is_dir() or (folder / f"{module}.py").is_file()
        if module and here and not elsewhere:
            return f"plugins.{name}"
    return ""


def _imports(folder: Path) -> list[tuple[str, str]]:
    """The imported names below ``plugins``: the folder, and the module in it if there is one."""
    found: dict[tuple[str, str], None] = {}
    for path, _ in zip(sorted(folder.rglob("*.py")), range(_MOST_FILES), strict=False):
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES)
        except OSError:
            continue
        for match in _IMPORTED.finditer(data):
            groups = [(each or b"").decode("ascii", "replace") for each in match.groups()]
            found[groups[0] or groups[2] or groups[3], groups[1] or groups[4]] = None
    return [*found]
