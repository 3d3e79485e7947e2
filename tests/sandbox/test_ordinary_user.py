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
    "test_attacks or self_check or goes_on_with_its_value or whole_tree or files_pass "
    "or disk_is_bounded or survive or destroyed or forks_share or files_are_bounded or holes "
    "or boxes_that_keep or files_of_idle"
)


@pytest.mark.jail
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
def test_boxes_of_an_ordinary_user_pass_the_same_tests() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare of util-linux to become another user")
    pytest_command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-k", CHOSEN),
        *(
            str(HERE / name)
            for name in (
                "jail/test_jail.py",
                "test_attacks.py",
                "jail/test_cgroups.py",
                "test_memory_limit.py",
            )
        ),
    ]
    done = subprocess.run(
        [*become(), *pytest_command], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


IN_CONTAINERS = (
    "self_check or whole_tree or files_pass or connect or uploads_are or nothing_is_left_of_boxes "
    "or killed_nothing or 02-a-server or 06-a-file or 15-40 or 41-a-port"
)


@pytest.mark.docker
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
async def test_containers_of_an_ordinary_user_in_the_engines_group_pass_the_same_tests() -> None:
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
            *("-k", IN_CONTAINERS, str(HERE / "docker" / "test_docker.py")),
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
