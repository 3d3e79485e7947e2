"""Decides whether a plugin made a file of the host during the running call.

A plugin may draw a picture, write it to a file and pass the text of the file's path to the bot. The
file may be below the temporary folder, below the working folder, or in a folder that the plugin has
made in the data folder. The plugin chose the folder, but the model may have chosen the file's name.
So only new files are accepted, and only in places where the bot and the system have no files.
"""

import os
import re
import tempfile
from pathlib import Path

BOT_FOLDERS = frozenset(
    {
        "adapter_data", "adapters", "announcements", "backups", "boxes", "conflicts", "copies",
        "emoji", "env_copies", "existing_plugins", "fonts", "logs", "mail", "matrix", "models",
        "personas", "platforms", "plugin_archives", "plugin_data", "plugin_files",
        "plugin_packages", "plugin_uploads", "plugin_versions", "plugins", "restore", "revisions",
        "satori", "secrets", "tries", "uploads", "vectors",
    }
)  # fmt: skip
"""The folders of the data folder in which the bot itself writes. Folders of other names belong to
plugins."""
_OF_A_CHAT = re.compile(r"-(private|group|channel)_")
"""Finds the name of a chat's folder below ``uploads``."""
_NEKRO_ROOT = Path("/app")
"""The folder in which Nekro Agent runs in its container. Plugins for Nekro Agent write below this
folder."""
_CLOCK_S = 0.01
"""The time of a new file may be too early by this many seconds, because the kernel takes it from
its last timer tick."""


def is_made_now(real: Path, text: str, data_dir: Path, began: float) -> bool:
    """Check whether a plugin may send a file by its path, because it made the file itself.

    Args:
        real: The file, without links.
        text: The path as the plugin wrote it.
        data_dir: The bot's data folder.
        began: When the plugin's call began, in seconds since 1970.

    Returns:
        True if this process's user made the file after ``began``, and the file is below the
        temporary folder or in a folder that plugins use. Outside of the temporary folder, the path
        must not contain ``..``, a link or a hidden folder.
    """
    facts = real.stat()
    if facts.st_mtime < began - _CLOCK_S or facts.st_uid != os.geteuid():
        return False
    data = data_dir.resolve()
    if not real.is_relative_to(data) and real.is_relative_to(Path(tempfile.gettempdir()).resolve()):
        return True
    parts = Path(text).parts
    if ".." in parts or Path(os.path.abspath(text)) != real:  # noqa: PTH100 - abspath keeps links
        return False
    if real.is_relative_to(data):
        return _is_of_a_plugin(data, real.relative_to(data).parts)
    roots = (Path.cwd(), _NEKRO_ROOT)
    return any(_is_below(root, real) for root in roots)


def _is_of_a_plugin(data: Path, parts: tuple[str, ...]) -> bool:
    """Return True if a file of the data folder is in a folder of a plugin."""
    match parts:
        case (folder, _, *_) if folder not in BOT_FOLDERS:
            return _is_visible(parts)
        case ("uploads", folder, _, *_) if not _OF_A_CHAT.search(folder):
            return _is_visible(parts)
        case ("plugins", folder, _, *_):
            # A plugin that is a single file may make a folder beside it. A folder with one of these
            # two files is another plugin.
            others = ("__init__.py", "_manifest.json")
            return _is_visible(parts) and not any(
                (data / "plugins" / folder / each).exists() for each in others
            )
    return False


def _is_below(root: Path, real: Path) -> bool:
    """Return True if a file is in a subfolder of ``root``. If ``root`` is the root of the file
    system, return False."""
    if root == Path(root.anchor) or not real.is_relative_to(root):
        return False
    parts = real.relative_to(root).parts
    return len(parts) > 1 and _is_visible(parts)


def _is_visible(parts: tuple[str, ...]) -> bool:
    return not any(part.startswith(".") for part in parts)
