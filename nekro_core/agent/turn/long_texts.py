"""Shortens long texts for the model, and writes the whole text to a file in the box."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from loguru import logger

from nekro_core.agent.prompt.transcript import shortened
from nekro_core.sandbox.box import SandboxError

RESULTS = "/home/user/results"
"""The folder in a box for results and output that are too long for a prompt."""

WriteFile = Callable[[str, bytes], Awaitable[object]]
"""Writes a file into the box. Raises `SandboxError`."""


@dataclass(frozen=True, slots=True)
class BoundedText:
    """A text for the model, shortened if necessary. ``path`` is the file in the box with the whole
    text; empty if the text was short, or if the file could not be written. ``left_out`` is the
    number of characters that the model is not shown."""

    text: str
    path: str = ""
    left_out: int = 0


async def bounded_text(text: str, limit: int, name: str, write: WriteFile | None) -> BoundedText:
    """Shorten a text that is longer than ``limit`` characters to its beginning and its end, and
    write the whole text to the file ``name`` in the folder `RESULTS`. ``write`` is None if there is
    no box."""
    if len(text) <= limit:
        return BoundedText(text)
    path = await write_result(name, text.encode("utf-8", "replace"), write)
    where = f"all of it is in {path}" if path else "the rest is not kept"
    left_out = len(text) - limit
    mark = f"\n[... {left_out} characters left out; {where} ...]\n"
    return BoundedText(shortened(text, limit, mark), path, left_out)


async def write_result(name: str, data: bytes, write: WriteFile | None) -> str:
    """Write a file into the folder for results. Returns its path; empty if the write fails or there
    is no box."""
    if write is None:
        return ""
    path = f"{RESULTS}/{name}"
    try:
        await write(path, data)
    except SandboxError as error:
        logger.warning("{} could not be kept in the box: {}", path, error)
        return ""
    return path
