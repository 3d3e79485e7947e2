"""Makes and stores the secrets of the bot."""

import hmac
import os
import secrets
from pathlib import Path

FOLDER = "secrets"
"""The folder of the secrets, in the data folder. Only its owner can enter it."""


def kept_secret(data_dir: Path, name: str) -> str:
    """Return the secret with this name. It has 256 random bits, written as printable text. The
    first call makes the secret.

    If two processes call this function at the same time, they get the same secret. Only the file's
    owner can read it. If the process is killed during the first call, the file is either complete
    or does not exist.

    Args:
        data_dir: The data folder.
        name: The name of the secret, which is also the name of its file.

    Returns:
        The secret.

    Raises:
        RuntimeError: The file is empty.
    """
    path = secret_file(data_dir, name)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        fresh = path.with_name(f".{name}.{secrets.token_hex(8)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
        try:
            # Another process may have made the file a moment ago. A rename would replace that file.
            # Making a link fails instead.
            path.hardlink_to(fresh)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    text = path.read_text().strip()
    if not text:
        raise RuntimeError(f"{path} is empty: delete it, and the bot makes a new secret")
    return text


def secret_file(data_dir: Path, name: str) -> Path:
    """Return the path of a secret's file.

    Args:
        data_dir: The data folder.
        name: The secret's name.

    Returns:
        The path. The file need not exist.
    """
    return data_dir / FOLDER / name


class ComparedSecret(str):
    """A secret that is given to code of other packages, which compares it by ``==`` or ``!=``.

    A comparison takes the same time for all wrong texts of the same length, whether the secret is
    its left or its right operand. If a comparison ended at the first wrong character, somebody
    could guess the secret character by character.
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
