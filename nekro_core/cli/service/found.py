"""Finds the systemd units that `nekro service install` wrote for a bot."""

import shlex
from collections.abc import Iterator
from pathlib import Path

_WRITTEN = "# Written by `nekro service install`"


def commands_to_install_again(
    program: Path, folder: Path, *, machine: Path, of_user: Path
) -> Iterator[str]:
    """Find the units that start the bot of ``folder`` with another program than ``program``. Yield
    a shell command for each, which writes the unit again so that it starts ``program``.

    Args:
        program: The program ``nekro`` from now on.
        folder: The folder in which the bot runs.
        machine: The folder with the units of the machine.
        of_user: The folder with the units of the user.
    """
    for units in (machine, of_user):
        for path in sorted(units.glob("*.service")):
            found = _options(path)
            started = found.get("ExecStart", "").removesuffix(" run").strip('"')
            runs_in = Path(found.get("WorkingDirectory", "/"))
            if not started or started == str(program) or runs_in.resolve() != folder.resolve():
                continue
            # Only root can write a unit of the machine. For this, root runs the program that the
            # unit starts now, and not the new program: the user of the bot can change the new
            # program, so root must not run it.
            words = [started if units == machine else str(program), "service", "install"]
            words += ["--program", str(program), "--folder", str(folder)]
            if units == machine:
                words = ["sudo", *words, "--as", found.get("User", "nekro")]
            else:
                words.append("--user")
            yield shlex.join([*words, "--name", path.stem])


def _options(unit: Path) -> dict[str, str]:
    """Return the options of a unit file by their names. The result is empty if `nekro service
    install` did not write the file."""
    try:
        text = unit.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    if not text.startswith(_WRITTEN):
        return {}
    lines = (line for line in text.splitlines() if "=" in line and not line.startswith("#"))
    pairs = (line.partition("=") for line in lines)
    return {name: value.replace("%%", "%") for name, _, value in pairs}
