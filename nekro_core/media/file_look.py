"""Describes in two lines what is in a file that somebody posted, so that a model knows it."""

from pathlib import PurePath
from typing import Literal

from anyio import CapacityLimiter

from nekro_core.media.confined_process import run_confined
from nekro_core.media.errors import MediaError, UnusableMedia

LookKind = Literal["text", "pdf", "xlsx", "docx", "zip"]

MOST_BYTES = 32 * 1024 * 1024
"""Maximum size in bytes of a file that is described."""
_SECONDS = 8
"""Maximum processor time for one file, in seconds. A PDF of 500 pages takes 2 s."""
_LINES, _CHARS = 2, 700
"""Maximum number of lines of a description, and of characters of each line."""
_TEXT_ENDINGS = frozenset(
    ("csv", "tsv", "json", "jsonl", "md", "log", "py", "yaml", "yml", "toml", "ini", "sql", "tex")
)
_ZIP_ENDINGS = frozenset(("docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "jar", "apk"))


def real_ending(mime: str, ending: str, name: str) -> str:
    """Return the ending for a stored file. By the first bytes alone, a table cannot be
    distinguished from other text, nor an office document from other archives. In these cases the
    ending of the file's name is used, if it is possible for these bytes."""
    claimed = PurePath(name.replace("\\", "/")).suffix.removeprefix(".").lower()
    fits = {"text/plain": _TEXT_ENDINGS, "application/zip": _ZIP_ENDINGS}.get(mime, frozenset())
    return claimed if claimed in fits else ending


def look_kind(mime: str, ending: str) -> LookKind | None:
    """Return the kind of a file; None if files of this kind cannot be described."""
    if mime == "application/pdf":
        return "pdf"
    if mime == "application/zip":
        return "xlsx" if ending == "xlsx" else "docx" if ending == "docx" else "zip"
    return "text" if mime.startswith("text/") else None


class FileLooker:
    """Describes files. Each file gets its own confined process, with limits on time and memory. At
    most ``at_once`` processes run; further files wait. A file takes 0.2 to 0.8 s."""

    def __init__(self, *, at_once: int = 2) -> None:
        self._places = CapacityLimiter(at_once)

    async def look(self, data: bytes, kind: LookKind, name: str) -> str:
        """Return what is in a file, in one or two lines. If it cannot be read, the line says
        why."""
        if len(data) > MOST_BYTES:
            return f"not looked into: it has more than {MOST_BYTES // 1024 // 1024} MB"
        request = {"kind": kind, "name": name}
        try:
            async with self._places:
                fields, _ = await run_confined(
                    "nekro_core.media.look_worker", request, data, seconds=_SECONDS
                )
        except UnusableMedia as error:
            return f"it cannot be read: {error}"
        except MediaError as error:
            return f"not looked into: {error}"
        lines = fields.get("lines")
        if not isinstance(lines, list):
            return "it cannot be read: the reader returned nothing"
        return "\n".join(" ".join(str(line).split())[:_CHARS] for line in lines[:_LINES])
