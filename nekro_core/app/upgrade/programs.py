"""Runs programs of another environment, such as its Python and its pip."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from nekro_core.system.errors import NekroError

_SAID = 2000
"""Maximum number of characters of a program's error output that the operator reads. The reason is
at its end."""


class UpgradeRefused(NekroError):
    """The upgrade is not carried out. The text says why. The bot and its data are unchanged."""


def environment_of_another_version(changed: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for a program of another version: those of this process
    without PYTHONPATH, and ``changed``."""
    # A program of the other version would import the packages, or even the bot, from the folders
    # that PYTHONPATH names for this version. pip would count the packages there as installed.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | dict(changed or {})


def run_program(
    command: Sequence[str],
    within_s: float,
    *,
    failed: str = "",
    late: str = "",
    changed: Mapping[str, str] | None = None,
) -> str:
    """Run a program of another environment.

    Args:
        command: The program and its arguments.
        within_s: Maximum number of seconds.
        failed: What the operator reads before the program's error output; empty for the command.
        late: What the operator reads if the program is not ready in time; empty for the command.
        changed: Environment variables that the program gets besides those of this process.

    Returns:
        What the program printed.

    Raises:
        UpgradeRefused: The program cannot be started, was not ready in time, or failed.
    """
    try:
        done = subprocess.run(  # noqa: S603 - our own arguments
            command,
            env=environment_of_another_version(changed),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=within_s,
        )
    except subprocess.TimeoutExpired:
        raise UpgradeRefused(f"{late or command[0]}: not ready within {within_s:g} s") from None
    except OSError as error:
        raise UpgradeRefused(f"{command[0]}: {error}") from None
    if done.returncode:
        what = failed or f"{' '.join(command[:4])} failed"
        raise UpgradeRefused(f"{what}: {done.stderr.strip()[-_SAID:]}")
    return done.stdout
