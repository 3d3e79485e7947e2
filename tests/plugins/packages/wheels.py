"""Makes a package index for tests: a folder with small wheels. Lets pip use only this folder."""

import hashlib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest


def make_wheel(
    folder: Path, name: str, version: str, *, needs: Sequence[str] = (), source: str = ""
) -> Path:
    """Make a wheel with one module. Its `VERSION` is the wheel's version."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = "\n".join(
        [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            *(f"Requires-Dist: {each}" for each in needs),
        ]
    )
    files = {
        f"{name}.py": f"VERSION = {version!r}\n{source}",
        f"{info}/METADATA": metadata + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items()
    )
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return wheel


def _digest(text: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def only_these(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip find packages only in this folder, whatever the settings of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
