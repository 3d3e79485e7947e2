"""Looks into a file that somebody posted, so that a model knows what is in it."""

from pathlib import PurePath
from typing import Literal

from anyio import CapacityLimiter

from nekro_core.media.confined_process import run_confined
from nekro_core.media.errors import MediaError, UnusableMedia

LookKind = Literal["text", "pdf", "xlsx", "docx", "zip"]

MOST_BYTES = 32 * 1024 * 1024
"""Maximum size in bytes of a file that is looked into."""
_SECONDS = 8
"""Processor time of one look in seconds. A PDF of 500 pages takes 2 s."""
_LINES, _CHARS = 2, 700
"""Maximum number of lines of a look, and of characters of each line."""
_TEXT_ENDINGS = frozenset(
    ("csv", "tsv", "json", "jsonl", "md", "log", "py", "yaml", "yml", "toml", "ini", "sql", "tex")
)
_ZIP_ENDINGS = frozenset(("docx", "xlsx", "pptx", "odt", "ods", "odp", "epub", "jar", "apk"))


def real_ending(mime: str, ending: str, name: str) -> str:
    """Return the ending for a stored file. The first bytes of a file cannot tell a table from other
    text, nor a document from other archives. Then the ending of its name counts, if it is one of
    those that fit the bytes."""
    claimed = PurePath(name.replace("\\", "/")).suffix.removeprefix(".").lower()
    fits = {"text/plain": _TEXT_ENDINGS, "application/zip": _ZIP_ENDINGS}.get(mime, frozenset())
    return claimed if claimed in fits else ending


def look_kind(mime: str, ending: str) -> LookKind | None:
    """Return which kind of file this is; None if it is of no kind that can be looked into."""
    if mime == "application/pdf":
        return "pdf"
    if mime == "application/zip":
        return "xlsx" if ending == "xlsx" else "docx" if ending == "docx" else "zip"
    return "text" if mime.startswith("text/") else None


class FileLooker:
    """Looks into files. Each file gets its own confined process, with bounds on time and memory. At
    most ``at_once`` of them run; further files wait. A look takes 0.2 to 0.8 s."""

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
