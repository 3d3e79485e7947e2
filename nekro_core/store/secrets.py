"""Secrets that the bot makes for itself at its first start."""

import os
import secrets
from pathlib import Path

FOLDER = "secrets"
"""Under the data folder; entered by its owner alone."""


def kept_secret(data_dir: Path, name: str) -> str:
    """The secret of that name, made now if this is the first start: 256 bits as printable text.

    Of two processes that ask at once both get the same. The file is readable by its owner alone,
    and it is whole or not there, whenever the process is killed. Raises `RuntimeError` where
    somebody emptied it.
    """
    path = secret_file(data_dir, name)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        fresh = path.with_name(f".{name}.{secrets.token_hex(8)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
        try:
            # A link, unlike a rename, does not replace what another process made meanwhile.
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
    """Where the secret of that name lies."""
    return data_dir / FOLDER / name
