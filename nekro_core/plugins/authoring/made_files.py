"""Decides whether a plugin made a file of the host during the present call.

A plugin sends pictures that it has drawn by the text of their path, wherever it has put them: below
the temporary folder, in a folder of its own below the data folder, below the working folder. The
base of such a path is the plugin's, but the model may have chosen the file's name. So only files
are meant that are new, and only in places where nothing of the bot or the system lies.
"""

import os
import re
import tempfile
from pathlib import Path

BOT_FOLDERS = frozenset(
    {
        "adapters", "announcements", "backups", "boxes", "conflicts", "copies", "emoji",
        "env_copies", "existing_plugins", "fonts", "logs", "mail", "matrix", "models", "personas",
        "platforms", "plugin_data", "plugin_files", "plugin_packages", "plugin_uploads",
        "plugin_versions", "plugins", "restore", "revisions", "satori", "secrets", "tries",
        "uploads", "vectors",
    }
)  # fmt: skip
"""The folders of the data folder in which the bot itself writes. A folder of another name belongs
to a plugin."""
_OF_A_CHAT = re.compile(r"-(private|group|channel)_")
"""Finds the name of a chat's folder below ``uploads``."""
_NEKRO_ROOT = Path("/app")
"""Nekro Agent runs in this folder of its container, and plugins write below it."""
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
        Whether the file was made since then by this process's user, and lies below the temporary
        folder or in a folder that a plugin uses. In the latter, the path must have no ``..``, no
        link, and no hidden folder.
    """
    facts = real.stat()
    if facts.st_mtime < began - _CLOCK_S or facts.st_uid != os.geteuid():
        return False
    data = data_dir.resolve()
    if not real.is_relative_to(data) and real.is_relative_to(Path(tempfile.gettempdir()).resolve()):
        return True
    parts = Path(text).parts
    if ".." in parts or Path(os.path.abspath(text)) != real:  # noqa: PTH100 - links must show
        return False
    if real.is_relative_to(data):
        return _is_of_a_plugin(data, real.relative_to(data).parts)
    roots = (Path.cwd(), _NEKRO_ROOT)
    return any(_is_below(root, real) for root in roots)


def _is_of_a_plugin(data: Path, parts: tuple[str, ...]) -> bool:
    """Whether a file of the data folder lies in a folder of a plugin."""
    match parts:
        case (folder, _, *_) if folder not in BOT_FOLDERS:
            return _is_visible(parts)
        case ("uploads", folder, _, *_) if not _OF_A_CHAT.search(folder):
            return _is_visible(parts)
        case ("plugins", folder, _, *_):
            # Beside a plugin that is a single file. Another plugin's folder has one of these files.
            others = ("__init__.py", "_manifest.json")
            return _is_visible(parts) and not any(
                (data / "plugins" / folder / each).exists() for each in others
            )
    return False


def _is_below(root: Path, real: Path) -> bool:
    """Whether a file lies in a folder of ``root``; never of the whole machine."""
    if root == Path(root.anchor) or not real.is_relative_to(root):
        return False
    parts = real.relative_to(root).parts
    return len(parts) > 1 and _is_visible(parts)


def _is_visible(parts: tuple[str, ...]) -> bool:
    return not any(part.startswith(".") for part in parts)
