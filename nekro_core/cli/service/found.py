"""Finds the systemd units that `nekro service install` wrote for a bot."""

import shlex
from collections.abc import Iterator
from pathlib import Path

_WRITTEN = "# Written by `nekro service install`"


def commands_to_install_again(
    program: Path, folder: Path, *, machine: Path, of_user: Path
) -> Iterator[str]:
    """Return for each unit that starts the bot of a folder with another program the command that
    lets it start this program.

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
            # The program of root writes a unit of the machine: root shall not run programs that
            # the user of the bot can change.
            words = [started if units == machine else str(program), "service", "install"]
            words += ["--program", str(program), "--folder", str(folder)]
            if units == machine:
                words = ["sudo", *words, "--as", found.get("User", "nekro")]
            else:
                words.append("--user")
            yield shlex.join([*words, "--name", path.stem])


def _options(unit: Path) -> dict[str, str]:
    """Return the options of a unit that `nekro service install` wrote; none of another unit."""
    try:
        text = unit.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    if not text.startswith(_WRITTEN):
        return {}
    lines = (line for line in text.splitlines() if "=" in line and not line.startswith("#"))
    pairs = (line.partition("=") for line in lines)
    return {name: value.replace("%%", "%") for name, _, value in pairs}
