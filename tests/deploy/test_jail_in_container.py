"""compose.yaml has the options that the jail needs in a container. With these options, a box passes
the jail's checks. If one of the options is missing, no box is made, and the jail names the option.

The root of the container is empty, and the programs of this machine are mounted into it. So no
image has to be fetched.
"""

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import pytest

from tests.deploy.composed import ROOT, composed, run_options
from tests.sandbox.docker.engine import NoEngine, running_engine

pytestmark = [pytest.mark.docker, pytest.mark.long]

IMAGE = "nekro-test-empty"
CHECK = """
import anyio, json
from nekro_core.sandbox.jail.backend import JailBackend
from nekro_core.sandbox.settings import SandboxSettings

async def main():
    async with anyio.create_task_group() as tasks:
        backend = JailBackend(SandboxSettings(packages=False), tasks)
        checked = await backend.self_check()
        await backend.aclose()
        tasks.cancel_scope.cancel()
    print(json.dumps([[c.name, c.ok, c.seen, c.remedy] for c in checked.checks]))

anyio.run(main)
"""


@dataclass(frozen=True)
class Checked:
    """One line of the jail's check of itself."""

    name: str
    ok: bool
    seen: str
    remedy: str


class Engine:
    """A running engine with an image that has folders and no files."""

    def __init__(self, docker: str, address: str) -> None:
        self._docker = [docker, "--host", address]
        subprocess.run(
            [*self._docker, "import", "-", IMAGE], input=_folders(), check=True, capture_output=True
        )

    def check_jail(self, options: Sequence[str]) -> list[Checked]:
        """Start a container with these options, and let the jail check itself in it."""
        home = Path(sys.base_prefix).resolve()
        shown = {"/usr", str(ROOT)} | ({str(home)} - {"/usr"})
        mounts = [word for path in sorted(shown) for word in ("--volume", f"{path}:{path}:ro")]
        done = subprocess.run(
            [
                *self._docker,
                *("run", "--rm", "--network", "none", "--user", "10001:10001"),
                *options,
                *mounts,
                *("--workdir", str(ROOT), IMAGE),
                *(sys.executable, "-c", CHECK),
            ],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return [Checked(*each) for each in json.loads(done.stdout)]


def _folders() -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name in ("dev", "etc", "home", "proc", "run", "sys", "tmp", "usr", "var"):
            folder = tarfile.TarInfo(name)
            # A tmpfs gets the mode of the folder on which it is mounted.
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(folder)
        for name in ("bin", "lib", "lib64", "sbin"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
    return written.getvalue()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    docker = which("docker")
    if docker is None:
        pytest.skip("the program docker is not installed (Debian: docker.io)")
    try:
        with running_engine(tmp_path_factory.mktemp("docker") / "engine") as address:
            yield Engine(docker, address)
    except NoEngine as reason:
        pytest.skip(str(reason))


OPTIONS = [each for each in run_options(composed()["services"]["bot"]) if each != "--init"]
"""The options of compose.yaml that confine the bot, without ``--init``. For ``--init``, the engine
puts a program into /sbin. Here /sbin leads to a folder of this machine."""


def without(option: str) -> list[str]:
    """The options of compose.yaml without the one that begins with this text."""
    place = next(place for place, each in enumerate(OPTIONS) if each.startswith(option))
    return OPTIONS[: place - 1] + OPTIONS[place + 1 :]


def test_with_the_options_of_compose_a_box_passes_every_check(engine: Engine) -> None:
    checked = engine.check_jail(OPTIONS)
    assert [each for each in checked if not each.ok] == []
    assert len(checked) > 10


@pytest.mark.parametrize("option", ["seccomp=", "systempaths="])
def test_without_one_of_the_options_no_box_is_made_and_the_option_is_named(
    engine: Engine, option: str
) -> None:
    (checked,) = engine.check_jail(without(option))
    assert (checked.name, checked.ok) == ("a box starts", False)
    (needed,) = (each for each in OPTIONS if each.startswith(option))
    assert f"--security-opt {needed}" in checked.remedy


def test_a_tmp_that_may_run_no_programs_is_reported(engine: Engine) -> None:
    (checked,) = engine.check_jail([*without("/tmp"), "--tmpfs", "/tmp"])
    assert not checked.ok
    assert "allows execution; set NEKRO_SANDBOX__RUNTIME_DIR" in checked.seen
