"""Functions that download files, and small functions for texts and files."""

import base64
import difflib
import hashlib
import random
import shutil
import string
from datetime import datetime
from pathlib import Path, PurePath
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.compat.nekro_agent.tools.path_convertor import get_upload_file_path
from nekro_core.delivery.errors import NotFetched
from nekro_core.media.sniff import HEAD, OCTETS, sniff
from nekro_core.plugins.authoring.current import current_call
from nekro_core.tools.outcome import InvalidValue

__all__ = [
    "calculate_file_md5",
    "calculate_text_similarity",
    "copy_to_upload_dir",
    "download_file",
    "download_file_from_base64",
    "download_file_from_bytes",
    "get_downloaded_prompt_file_path",
    "limited_text_output",
    "random_chat_check",
    "random_str",
    "show_time",
]

_CHUNK = 1024 * 1024


async def download_file(
    url: str,
    file_path: str | None = None,
    file_name: str = "",
    use_suffix: str = "",
    retry_count: int = 3,
    from_chat_key: str = "",
    **_: object,
) -> tuple[str, str]:
    """Fetch a file and store it at ``file_path``. If this is empty, store the file in the uploads
    folder of the chat ``from_chat_key``.

    Returns the file's path and its name. Raises `ValueError` if the file cannot be fetched, or if
    both ``file_path`` and ``from_chat_key`` are empty.
    """
    fetcher = current_host().reach.fetcher
    if fetcher is None:
        raise InvalidValue("this bot cannot fetch files")
    for left in reversed(range(max(1, retry_count))):
        try:
            data = await fetcher.fetch(url)
            break
        except NotFetched as error:
            if not left:
                raise InvalidValue(f"{url} cannot be fetched: {error}") from error
            await anyio.sleep(0.5)
    name = file_name or PurePath(urlsplit(url).path).name
    return await _kept(data, file_path, name, use_suffix, from_chat_key)


async def download_file_from_bytes(
    bytes_data: bytes,
    file_path: str | None = None,
    file_name: str = "",
    use_suffix: str = "",
    from_chat_key: str = "",
    **_: object,
) -> tuple[str, str]:
    """Store bytes at the place where `download_file` would store a file. Returns the path and the
    name."""
    return await _kept(bytes_data, file_path, file_name, use_suffix, from_chat_key)


async def download_file_from_base64(
    base64_str: str,
    file_path: str | None = None,
    file_name: str = "",
    use_suffix: str = "",
    from_chat_key: str = "",
    **_: object,
) -> tuple[str, str]:
    """Store a file that is given as base64 at the place where `download_file` would store it. The
    base64 text may begin with ``base64://`` or ``data:...,``. Returns the path and the name."""
    text = base64_str.removeprefix("base64://")
    text = text.partition(",")[2] if text.startswith("data:") else text
    return await _kept(base64.b64decode(text), file_path, file_name, use_suffix, from_chat_key)


async def copy_to_upload_dir(
    file_path: str, file_name: str = "", use_suffix: str = "", from_chat_key: str = "", **_: object
) -> tuple[str, str]:
    """Copy a file of the host into the chat's uploads. Returns its new path and its name."""
    name = file_name or PurePath(file_path).name
    target, name = get_upload_file_path(from_chat_key, name, use_suffix)
    ctx = current_call()
    if ctx is not None and isinstance(ctx.fs.meant(Path(file_path)), str):
        file_path = str(ctx.fs.get_file(file_path))
    await to_thread.run_sync(shutil.copyfile, file_path, target)
    return str(target), name


def get_downloaded_prompt_file_path(file_name: str) -> str:
    """The path in the box of a file that the chat received."""
    return f"/app/uploads/{PurePath(file_name).name}"


def limited_text_output(text: str, limit: int = 600, placeholder: str = "...") -> str:
    """Shorten a text that is longer than ``limit`` to its beginning and its end."""
    if len(text) <= limit:
        return text
    half = max(1, (limit - len(placeholder)) // 2)
    return f"{text[:half]}{placeholder}{text[-half:]}"


async def calculate_file_md5(file_path: str | Path) -> str:
    """The MD5 of a file, as hex digits."""
    return await to_thread.run_sync(_md5, Path(file_path))


def calculate_text_similarity(text1: str, text2: str, min_length: int = 0) -> float:
    """How similar two texts are, from 0 to 1. If a text is shorter than ``min_length``, the result
    is 1 for equal texts and 0 for different texts."""
    if min(len(text1), len(text2)) < min_length:
        return float(text1 == text2)
    return difflib.SequenceMatcher(None, text1, text2).ratio()


def random_chat_check(probability: float = 0.0) -> bool:
    """Return True with a probability from 0 to 1."""
    return random.random() < probability  # noqa: S311 - not used for secrets


def random_str(length: int = 8) -> str:
    """Random letters and digits. Do not use them as a secret."""
    return "".join(random.choices(string.ascii_letters + string.digits, k=length))  # noqa: S311


def show_time(timestamp: float) -> str:
    """Format a time as text, in the machine's time zone."""
    return datetime.fromtimestamp(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")


async def _kept(
    data: bytes, file_path: str | None, name: str, suffix: str, chat_key: str
) -> tuple[str, str]:
    if file_path:
        target = Path(file_path)
    elif chat_key:
        mime, ending = sniff(data[:HEAD])
        known = f".{ending}" if (mime, ending) != OCTETS else ""
        seed = hashlib.sha256(data).hexdigest()
        target, name = get_upload_file_path(chat_key, name, suffix or known, seed)
    else:
        raise InvalidValue("expected file_path or from_chat_key, where the file is stored")
    await to_thread.run_sync(_written, target, data)
    return str(target), target.name


def _written(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()
