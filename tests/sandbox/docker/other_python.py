"""Makes a Docker image whose Python has another version than the Python of the tests' image."""

import io
import os
import re
import subprocess
import tarfile
from pathlib import Path
from shutil import which

from nekro_core.sandbox.docker.engine import DockerEngine
from nekro_core.sandbox.package_fetch import NEWEST, OLDEST

NAME = "other-python"
_LEFT_OUT = re.compile(r"(.*/)?(__pycache__|site-packages|test|tests|idlelib|ensurepip|config-.*)")
_DOCKERFILE = "FROM nekro-box/python\nCOPY python/ {0}/\nENV PATH={0}/bin:/usr/bin\n"
"""The Python has the same path in the image as on this machine, because the program ``python`` may
load its shared library from that path."""


def find_other_python(known: tuple[int, int]) -> tuple[Path, tuple[int, int]] | None:
    """Return the folder and the version of a Python on this machine; None if none fits. There must
    be packages for its version, and its version must not be ``known``. Only a Python that has a
    folder to itself fits, for example one that pyenv has installed. The Python of the system does
    not fit, because its folder, /usr, holds other programs too."""
    own = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    found = [path for name in names for path in (*own.glob(f"*/bin/{name}"), which(name)) if path]
    look = "import sys; print(sys.base_prefix, *sys.version_info[:2])"
    for path in map(str, found):
        done = subprocess.run([path, "-I", "-c", look], capture_output=True, text=True, check=False)
        if done.returncode:
            continue  # this is a starter of pyenv for a version that is not selected
        prefix, major, minor = done.stdout.rsplit(maxsplit=2)
        version = (int(major), int(minor))
        if version != known and prefix not in ("/usr", "/usr/local"):
            return Path(prefix), version
    return None


async def give_other_image(host: str, prefix: Path, version: tuple[int, int]) -> None:
    """Make the image `NAME` from the tests' image and the Python in the folder ``prefix``. Raises
    `BackendUnavailable`."""
    program = "python{}.{}".format(*version)
    steps = _DOCKERFILE.format(prefix).encode()
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(steps)
        archive.addfile(entry, io.BytesIO(steps))
        archive.add(prefix / "bin" / program, arcname=f"python/bin/{program}")
        link = tarfile.TarInfo("python/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, program
        archive.addfile(link)
        archive.add(prefix / "lib" / program, arcname=f"python/lib/{program}", filter=_carried)
        for library in (prefix / "lib").glob("libpython3*.so*"):
            archive.add(library, arcname=f"python/lib/{library.name}")
    context.seek(0)
    engine = await DockerEngine.connect(host, build=True)

    def build() -> None:
        said = engine.client.build(
            fileobj=context, custom_context=True, tag=f"nekro-box/{NAME}", rm=True, decode=True
        )
        errors = [line["error"] for line in said if "error" in line]
        assert not errors, errors

    try:
        await engine.ask(build)
    finally:
        engine.close()


def _carried(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.isdir() and _LEFT_OUT.fullmatch(entry.name) else entry
