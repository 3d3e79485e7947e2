"""Decides for each file of the data folder whether it belongs in a backup.

`CONTENTS` is the table that ``docs/operating-reference.md`` shows. A file that no pattern of the
table matches is data of a plugin, and belongs in the backup.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path


class Part(StrEnum):
    """The part of a backup in which a file is."""

    DATABASE = "database"
    """The file is copied as a database, not as a file."""
    DATA = "data"
    SECRET = "secret"  # noqa: S105 (a kind of file)
    """The file is encrypted, and is only in a backup with secrets."""
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Content:
    """What happens to the files whose path in the data folder matches ``pattern``, and to all files
    below a folder that matches. The pattern is written as in the shell, but ``*`` does not match
    ``/``."""

    pattern: str
    part: Part
    what: str


_HALF_WRITTEN = ".*.new"

CONTENTS = (
    Content("nekro.sqlite3", Part.DATABASE, "messages, turns, timers, plugins' values"),
    Content("nekro.sqlite3?*", Part.LEFT_OUT, "belongs to a process: log and index of the file"),
    Content("secrets/erased", Part.DATA, "without it the marks of erased people mean nothing"),
    Content("secrets", Part.SECRET, "tokens that the bot made"),
    Content("matrix", Part.SECRET, "renewed tokens of Matrix accounts"),
    Content("conduct.toml", Part.DATA, "policies of chats and people, personas, quotas"),
    Content("settings.toml", Part.DATA, "settings"),
    Content("secrets.toml", Part.SECRET, "settings with keys, tokens and passwords"),
    Content("env_copies", Part.SECRET, "`.env` files from before settings were moved"),
    Content("documents.json", Part.LEFT_OUT, "which documents are as in the database"),
    Content("conflicts", Part.SECRET, "changed files that lost against the database"),
    Content("revisions/.lock", Part.LEFT_OUT, "belongs to a process"),
    Content("revisions", Part.DATA, "earlier texts of settings.toml and conduct.toml"),
    Content("personas", Part.DATA, "library of personas"),
    Content("egress.toml", Part.DATA, "network rules of boxes"),
    Content("accounts.toml", Part.DATA, "names of accounts"),
    Content("mcp.json", Part.DATA, "MCP servers"),
    Content("plugins.json", Part.DATA, "which plugins are switched on"),
    Content("plugins.installed.json", Part.DATA, "where installed plugins came from"),
    Content("plugins.shared.json", Part.DATA, "which plugins all processes of a cluster have"),
    Content("plugins.data_removed.json", Part.DATA, "plugins whose removal is not told yet"),
    Content("plugin_archives", Part.DATA, "plugins for the other processes of a cluster"),
    Content("erased.json", Part.DATA, "marks of erased people"),
    Content("plugins", Part.DATA, "installed plugins"),
    Content("adapters", Part.DATA, "installed adapters"),
    Content("adapter_data", Part.DATA, "adapters' own files"),
    Content("plugin_data", Part.DATA, "plugins' settings and own files"),
    Content("existing_plugins", Part.DATA, "facts and presets of plugins for nekro-agent"),
    Content("plugin_files", Part.DATA, "files that plugins share with boxes"),
    Content("uploads/.shared", Part.LEFT_OUT, "belongs to a process of a cluster"),
    Content("uploads", Part.DATA, "pictures, voices and files of chats"),
    Content("boxes/*/*.shared", Part.LEFT_OUT, "belongs to a process of a cluster"),
    Content("boxes", Part.DATA, "files of sleeping boxes"),
    Content("vectors", Part.DATA, "vectors of plugins"),
    Content("emoji", Part.DATA, "stickers"),
    Content("fonts", Part.DATA, "fonts for drawings"),
    Content("platforms", Part.SECRET, "accounts that were added in the console"),
    Content("enabled_platforms.json", Part.DATA, "platforms that were switched on in the console"),
    Content("platform_requests.json", Part.DATA, "friend and group requests"),
    Content("announcements", Part.DATA, "announcements to several chats"),
    Content("mail", Part.DATA, "subjects and threads of mails"),
    Content("satori", Part.DATA, "position in the events of Satori accounts"),
    Content("accounts.list.json", Part.LEFT_OUT, "written again at each start"),
    Content("plugins.list.json", Part.LEFT_OUT, "written again at each start"),
    Content("mcp_state.json", Part.LEFT_OUT, "written again at each start"),
    Content("plugin_packages", Part.LEFT_OUT, "installed again when the plugins are loaded"),
    Content("plugin_uploads", Part.LEFT_OUT, "uploaded files of plugins, installed or not wanted"),
    Content("models", Part.LEFT_OUT, "downloaded again"),
    Content("copies", Part.LEFT_OUT, "old databases from before upgrades"),
    Content("backups", Part.LEFT_OUT, "backups"),
    Content("restore", Part.LEFT_OUT, "a restore that waits for the next start"),
    Content("restored.json", Part.LEFT_OUT, "what is left to do after a restore"),
    Content("logs", Part.LEFT_OUT, "log files"),
    Content("chat.log", Part.LEFT_OUT, "log of the bot of `nekro chat`"),
    Content("tries", Part.LEFT_OUT, "data of `nekro plugin run`"),
    Content("running.json", Part.LEFT_OUT, "belongs to a process"),
    Content("upgrade.json", Part.LEFT_OUT, "belongs to a process: what `nekro upgrade` asked for"),
    Content(".upgrade-*", Part.LEFT_OUT, "copies on which `nekro upgrade` tries a migration"),
    Content("nekro.lock", Part.LEFT_OUT, "belongs to a process"),
    Content("plugins.moving.*", Part.LEFT_OUT, "belongs to a process"),
    Content("owner_of_boxes", Part.LEFT_OUT, "two folders with one owner would remove each "
            "other's boxes"),
    Content(_HALF_WRITTEN, Part.LEFT_OUT, "half-written files, in every folder"),
    Content(".gitkeep", Part.LEFT_OUT, "belongs to the checkout"),
)  # fmt: skip
"""What happens to the files of a data folder. If several patterns match a file, the first one
counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file of the data folder. ``path`` has ``/`` between its parts."""

    path: str
    part: Part
    size: int


def part_of(path: str) -> Part:
    """Return the part of a backup to which a file of the data folder belongs."""
    parts = path.split("/")
    if fnmatchcase(parts[-1], _HALF_WRITTEN):
        return Part.LEFT_OUT
    beginnings = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for content in CONTENTS:
        depth = content.pattern.count("/")
        if depth < len(beginnings) and fnmatchcase(beginnings[depth], content.pattern):
            return content.part
    return Part.DATA


def find_files(data: Path, left_out: list[str]) -> Iterator[FoundFile]:
    """Find the files of a data folder, in order, without the database.

    Links and special files are left out. ``left_out`` gets a sentence for each of them, and for
    each folder that cannot be read.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(data / folder) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except FileNotFoundError:
            continue  # The folder was deleted meanwhile.
        except OSError as error:
            left_out.append(f"{folder}: cannot be read: {error.strerror}")
            continue
        folders = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            part = part_of(path)
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                if part is not Part.LEFT_OUT:
                    folders.append(path)
            elif part in (Part.LEFT_OUT, Part.DATABASE):
                continue
            elif stat.S_ISREG(status.st_mode):
                yield FoundFile(path=path, part=part, size=status.st_size)
            else:
                what = "a link" if stat.S_ISLNK(status.st_mode) else "no file"
                left_out.append(f"{path}: is {what}")
        waiting += reversed(folders)
