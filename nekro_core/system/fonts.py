"""Finds the font files of this machine."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

_ENDINGS = (".ttf", ".otf", ".ttc", ".otc")
_MOST_FILES = 5_000


def font_folders() -> list[Path]:
    """Find the folders in which this system and installed Python packages keep fonts.

    Returns:
        The folders that exist. A folder may have subfolders with fonts.
    """
    home = Path.home()
    folders = [home / ".fonts", home / ".local/share/fonts", Path("/usr/local/share/fonts")]
    folders += [Path("/usr/share/fonts")]
    if sys.platform == "darwin":
        folders += [home / "Library/Fonts", Path("/Library/Fonts"), Path("/System/Library/Fonts")]
    elif sys.platform == "win32":
        folders += [Path(os.environ.get("WINDIR", r"C:\Windows"), "Fonts")]
    wheel = find_spec("cvttf_NotoSansCJK_Regular")
    if wheel is not None and wheel.origin:
        folders.append(Path(wheel.origin).parent)
    return [folder for folder in folders if folder.is_dir()]


def font_files(folder: Path) -> list[Path]:
    """Find the font files in a folder and its subfolders.

    Args:
        folder: The folder. It may be missing.

    Returns:
        At most 5,000 paths of TrueType and OpenType files and collections.
    """
    found: list[Path] = []
    for root, _, names in os.walk(folder):
        found += [Path(root, name) for name in names if name.lower().endswith(_ENDINGS)]
        if len(found) > _MOST_FILES:
            break
    return found[:_MOST_FILES]
