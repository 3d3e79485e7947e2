"""Runs the tests of boxes again as an ordinary user."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.sandbox.as_ordinary_user import UID, become
from tests.sandbox.docker.engine import NoEngine, give_image, running_engine

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
CHOSEN = (
    *("test_attacks", "self_check", "continues_with_its_result", "memory_of_all_processes"),
    *("each_others_files", "disk_space_is_limited", "survive", "destroyed", "forks_share"),
    *("number_of_files_is_limited", "holes", "boxes_that_keep", "files_of_idle"),
)
"""A part of the name of each test that runs again."""
FILES = ("jail/test_jail.py", "test_attacks.py", "jail/test_cgroups.py", "test_memory_limit.py")


@pytest.mark.jail
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
def test_boxes_of_an_ordinary_user_pass_tests_that_boxes_of_root_pass() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare of util-linux to become another user")
    pytest_command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-k", " or ".join(CHOSEN)),
        *(str(HERE / name) for name in FILES),
    ]
    done = subprocess.run(
        [*become(), *pytest_command], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


IN_CONTAINERS = (
    *("self_check", "memory_of_all_processes", "each_others_files", "connect", "uploads_are"),
    *("nothing_is_left_of_destroyed_boxes", "killed_nothing", "02-a-server", "06-a-file"),
    *("15-40", "41-a-port"),
)
"""As `CHOSEN`, for the tests of containers."""


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
async def test_containers_of_a_user_in_the_engines_group_pass_tests_that_those_of_root_pass() -> (
    None
):
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        Path(name).chmod(0o711)
        try:
            host = stack.enter_context(running_engine(Path(name) / "engine"))
        except NoEngine as reason:
            pytest.skip(str(reason))
        await give_image(host)
        address = Path(host.removeprefix("unix://"))
        pytest_command = [
            *("/usr/bin/env", f"NEKRO_TEST_DOCKER_HOST={host}"),
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "docker"),
            *("-k", " or ".join(IN_CONTAINERS), str(HERE / "docker" / "test_docker.py")),
        ]

        def run() -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [*become(), *pytest_command],
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )

        refused = await anyio.to_thread.run_sync(run)
        assert refused.returncode != 0
        assert "Permission denied" in refused.stdout
        os.chown(address, 0, UID)
        address.chmod(0o660)
        done = await anyio.to_thread.run_sync(run)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        assert " passed" in done.stdout


@pytest.mark.parametrize(
    ("files", "parts"), [(FILES, CHOSEN), (("docker/test_docker.py",), IN_CONTAINERS)]
)
def test_each_chosen_part_is_in_the_name_of_a_test(
    files: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    """A test that was renamed would silently no longer run again."""
    command = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    listed = subprocess.run(
        [*command, *(str(HERE / name) for name in files)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert listed.returncode == 0, listed.stdout[-2000:] + listed.stderr[-2000:]
    assert [part for part in parts if part not in listed.stdout] == []
