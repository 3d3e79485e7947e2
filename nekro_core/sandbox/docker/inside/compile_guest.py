"""Stage two of an image's first container: compile the supervisor with the image's Python.

Runs after `boot.BOOT`, which defines ``receive``. Compiling takes longer than loading, and a box
should not wait for it. The result goes to the host, which passes it to boxes of this image and
never decodes it.
"""

from __future__ import annotations

import json
import marshal
import os
import sys
import sysconfig
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:

    def receive() -> bytes:
        """Read the next piece of the stream."""


_OLDEST = (3, 9)


def main() -> None:
    """Answer with a line of JSON, then with the compiled modules."""
    sources = json.loads(receive())
    compiled = b""
    if sys.version_info >= _OLDEST:
        modules = {
            name: compile(source, f"<{name}>", "exec", dont_inherit=True)
            for name, source in sources.items()
        }
        compiled = marshal.dumps(modules)
    paths = sysconfig.get_paths()
    debian = "/usr/lib/python3/dist-packages"
    folders = map(Path, dict.fromkeys((paths["purelib"], paths["platlib"], debian)))
    found = {
        "size": len(compiled),
        "executable": os.path.realpath(sys.executable),
        "version": list(sys.version_info[:3]),
        "packages": [str(path) for path in folders if path.is_dir() and any(path.iterdir())],
        "shared": os.path.realpath("/app/shared") == "/home/user",
    }
    os.write(1, json.dumps(found).encode() + b"\n")
    while compiled:
        compiled = compiled[os.write(1, compiled) :]
    while os.read(0, 1):  # the host closes after it has read the answer
        pass


main()
