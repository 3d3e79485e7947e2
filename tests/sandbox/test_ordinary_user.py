"""The same boxes where the bot is an ordinary user, and what is left when a bot dies."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.jail, pytest.mark.long]

HERE = Path(__file__).parent
CHOSEN = (
    "test_attacks or self_check or goes_on_with_its_value or whole_tree or files_pass "
    "or disk_is_bounded or survive or destroyed or forks_share"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user already")
def test_boxes_of_an_ordinary_user_hold_the_same() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare of util-linux to become another user")
    pytest_command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-k", CHOSEN),
        *(str(HERE / name) for name in ("test_jail.py", "test_attacks.py", "test_jail_limits.py")),
    ]
    become = ["unshare", "-m", sys.executable, str(HERE / "as_ordinary_user.py")]
    done = subprocess.run(
        [*become, *pytest_command], capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
