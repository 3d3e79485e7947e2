"""Functions that convert paths between boxes and the host. In nekro-core, ``ctx.fs`` does this."""

import hashlib
import secrets
from pathlib import Path, PurePath

from nekro_core.chat import ChatKey
from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.plugins.authoring.call import CallFiles
from nekro_core.plugins.authoring.current import current_call
from nekro_core.plugins.authoring.files import is_url
from nekro_core.plugins.authoring.host_files import SHARED, UPLOADS, HostFiles
from nekro_core.tools.outcome import ToolFailure

__all__ = [
    "convert_filename_to_access_path",
    "convert_filename_to_container_path",
    "convert_filename_to_sandbox_shared_path",
    "convert_filename_to_sandbox_upload_path",
    "convert_to_container_path",
    "convert_to_host_path",
    "get_sandbox_path",
    "get_upload_file_path",
    "is_url_path",
]


def convert_to_host_path(
    sandbox_path: Path | str, chat_key: str = "", container_key: str | None = None
) -> Path:
    """The path of the host's copy of a file in a chat's box. While a call of a plugin runs, the
    chat is the chat of this call.

    Raises `ValueError` for a path outside of the box's folders, and `ToolFailure` if ``chat_key``
    is not the chat of the call.
    """
    del container_key
    ctx = current_call()
    if ctx is not None:
        if chat_key and chat_key != ctx.chat_key:
            raise ToolFailure(f"{chat_key}: only files of this chat ({ctx.chat_key}) can be used")
        return ctx.fs.get_file(str(sandbox_path))
    copy, _ = _mirror(chat_key).host_path(str(sandbox_path))
    return copy


def convert_to_container_path(host_path: Path | str, *_: object) -> str:
    """Copy a file of the host into the box of the call's chat. Returns the path in the box. Outside
    of a call, nothing is copied."""
    ctx = current_call()
    if ctx is not None:
        return ctx.fs.forward_file(Path(host_path))
    return f"{SHARED}/{PurePath(host_path).name}"


get_sandbox_path = convert_to_container_path


def convert_filename_to_sandbox_upload_path(file_name: Path | str) -> Path:
    """The path in the box of a file that the chat received."""
    return Path(UPLOADS) / PurePath(file_name).name


def convert_filename_to_sandbox_shared_path(file_name: Path | str) -> Path:
    """The path in the box of a file in the shared folder."""
    return Path(SHARED) / PurePath(file_name).name


convert_filename_to_container_path = convert_filename_to_sandbox_upload_path


def convert_filename_to_access_path(file_name: Path | str, chat_key: str) -> Path:
    """The path on the host of a file that the chat received."""
    return _mirror(chat_key).uploads / PurePath(file_name).name


def get_upload_file_path(
    from_chat_key: str, file_name: str = "", use_suffix: str = "", seed: str = ""
) -> tuple[Path, str]:
    """Choose where to store a new file of the chat. Returns the path on the host and the file's
    name."""
    folder = _mirror(from_chat_key).uploads
    folder.mkdir(parents=True, exist_ok=True)
    name = PurePath(file_name).name
    if not name:
        source = seed or secrets.token_hex(16)
        name = f"{hashlib.sha256(source.encode()).hexdigest()[:32]}{use_suffix}"
    elif use_suffix and not PurePath(name).suffix:
        name = f"{name}{use_suffix}"
    return folder / name, name


def is_url_path(path: str | Path) -> bool:
    """Return True if a text is a URL and not a path."""
    return is_url(str(path))


def _mirror(chat_key: str) -> HostFiles:
    return HostFiles(current_host().reach.data_dir, ChatKey.parse(chat_key), "", CallFiles())
