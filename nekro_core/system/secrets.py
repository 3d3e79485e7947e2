"""Secrets that the bot makes at its first start."""

import hmac
import os
import secrets
from pathlib import Path

FOLDER = "secrets"
"""Below the data folder. Only its owner can enter it."""


def kept_secret(data_dir: Path, name: str) -> str:
    """Get the secret of a name: 256 bits as printable text. The first call makes it.

    Two processes that call it at the same time get the same secret. Only its owner can read the
    file. If the process is killed, the file is complete or does not exist.

    Args:
        data_dir: The data folder.
        name: The secret's name, which is its file's.

    Returns:
        The secret.

    Raises:
        RuntimeError: Somebody emptied the file.
    """
    path = secret_file(data_dir, name)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        fresh = path.with_name(f".{name}.{secrets.token_hex(8)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
        try:
            # A link, unlike a rename, does not replace the file that another process just made.
            path.hardlink_to(fresh)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    text = path.read_text().strip()
    if not text:
        raise RuntimeError(f"{path} is empty: delete it, and a new secret is made")
    return text


def secret_file(data_dir: Path, name: str) -> Path:
    """The path of a secret's file.

    Args:
        data_dir: The data folder.
        name: The secret's name.

    Returns:
        The path, whether there is a file or not.
    """
    return data_dir / FOLDER / name


class ComparedSecret(str):
    """A secret that foreign code compares by ``==`` or ``!=``.

    Both take the same time for every wrong text of the same length, on either side. If a comparison
    ended at the first wrong character, a secret could be guessed character by character.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        return hmac.compare_digest(_bytes(self), _bytes(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
