"""Implements ``nekro service``: shows, installs and removes the systemd unit of the bot."""

import argparse
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nekro_core.app.upgrade.environment import program_of
from nekro_core.cli.service.unit import STATE, ServiceUnit, UnitError, unit_file
from nekro_core.system.atomic_files import write_whole

RUNNING = Path("/run/systemd/system")
"""This folder exists if systemd is the service manager of the machine (``man 3 sd_booted``)."""
_MANAGER_S = 60.0
"""Maximum number of seconds to wait for a program of systemd. Starting or stopping the bot takes at
most 20 s."""


async def run(options: argparse.Namespace) -> int:
    """Carry out the action that the command line names, and return the exit status."""
    try:
        match options.action:
            case "show":
                print(_unit(options).text, end="")
                return 0
            case "install":
                return _install(options)
            case "status":
                return _status(options)
            case _:
                return _remove(options)
    except (UnitError, OSError, subprocess.SubprocessError) as error:
        print(f"nekro service: {error}", file=sys.stderr)
        return 1


def _install(options: argparse.Namespace) -> int:
    unit, path = _unit(options), _path(options)
    _check_manager()
    if unit.user:
        _check_is_root(options)
        _check_may_run(unit.program, unit.user)
        _make_user(unit.user, unit.folder)
        if unit.folder != STATE:
            _check_owner(unit.folder, unit.user)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, unit.text.encode())
    path.chmod(0o644)
    _systemctl(options, "daemon-reload")
    print(f"{path} is written: {unit.program} in {unit.folder}")
    manager = "systemctl --user" if options.user else "systemctl"
    if options.enable:
        _systemctl(options, "enable", path.name)
        # If the service was installed before, it still runs with the old unit file. The restart
        # applies the new one.
        _systemctl(options, "restart", path.name)
        print(f"{path.stem} runs, and starts with {'you' if options.user else 'the machine'}")
    else:
        print(f"start it now and at each start: {manager} enable --now {path.stem}")
    journal = "journalctl --user" if options.user else "journalctl"
    print(f"the login link is in its log: {journal} -u {path.stem} -n 50")
    if options.user and not Path("/var/lib/systemd/linger", _user_name()).exists():
        print("it ends when you log out, unless: loginctl enable-linger")
    return 0


def _status(options: argparse.Namespace) -> int:
    path = _path(options)
    if not path.exists():
        print(f"{path} is not there; `nekro service install` writes it")
        return 3
    _check_manager()
    words = [*_manager(options), "status", "--no-pager", "--lines=5", path.name]
    return subprocess.run(words, check=False, timeout=_MANAGER_S).returncode  # noqa: S603 - fixed words


def _remove(options: argparse.Namespace) -> int:
    path = _path(options)
    if not path.exists():
        print(f"{path} is not there")
        return 1
    if not options.user:
        _check_is_root(options)
    folder = _folder_of(path)
    if RUNNING.exists():
        _systemctl(options, "disable", "--now", path.name)
    path.unlink()
    if RUNNING.exists():
        _systemctl(options, "daemon-reload")
    print(f"{path} is removed; the data in {folder} stays")
    return 0


def _unit(options: argparse.Namespace) -> ServiceUnit:
    of_user = options.user
    default = Path() if of_user else STATE
    return ServiceUnit(
        program=_program(options.program),
        folder=Path(options.folder).absolute() if options.folder else default.absolute(),
        user="" if of_user else options.run_as,
    )


def _path(options: argparse.Namespace) -> Path:
    return unit_file(options.name, of_user=options.user, home=Path.home())


def _program(given: str) -> Path:
    """Return the program that the operator gave, or else the program ``nekro`` of this environment.
    ``python -m nekro_core`` would also import modules of the folder in which it is started."""
    program = Path(given).absolute() if given else program_of(Path(sys.executable))
    if not program.exists():
        raise UnitError(
            f"{program} is not there: install nekro-core into this environment (pipx, or make run)"
        )
    return program


def _check_manager() -> None:
    if shutil.which("systemctl") is None or not RUNNING.exists():
        raise UnitError(
            "systemd does not manage this machine. `nekro service show` prints the unit; another "
            "service manager must run `nekro run` in the folder of the bot"
        )


def _check_is_root(options: argparse.Namespace) -> None:
    if os.geteuid() != 0:
        raise UnitError(
            f"a service of the machine needs root: sudo {sys.executable} -m nekro_core service "
            f"{options.action}, or a service of your own: nekro service {options.action} --user"
        )


def _check_may_run(program: Path, user: str) -> None:
    """Check that the user of the service can run the program. A program that root installed with
    pipx is below ``/root``, which other users may not enter. A program that `nekro upgrade`
    installed is in a folder of the user, who may enter it. Raises `UnitError`."""
    # The program and the interpreter can be symbolic links. Then the user must also be able to
    # enter the folders to which they point.
    beside = program.resolve().with_name("python")
    interpreter = beside if beside.exists() else Path(sys.executable)
    owner = _number_of(user)
    for path in (program, program.resolve(), interpreter.resolve()):
        for each in (path, *path.parents):
            found = each.stat()
            if not found.st_mode & (0o100 if found.st_uid == owner else 0o001):
                raise UnitError(
                    f"the user of the service may not enter {each}, so it cannot run {program}. "
                    "Install it where everybody may: PIPX_HOME=/opt/pipx "
                    "PIPX_BIN_DIR=/usr/local/bin pipx install ..."
                )


def _number_of(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:  # The user will be made, and has no files yet.
        return -1


def _make_user(name: str, home: Path) -> None:
    """Make the user of the service if there is none. The user cannot log in."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        line = f'u {name} - "nekro-core" {home}'
        _checked(["systemd-sysusers", "--inline", line])
        print(f"the user {name} is made; it cannot log in")


def _check_owner(folder: Path, user: str) -> None:
    if not folder.is_dir() or folder.stat().st_uid != pwd.getpwnam(user).pw_uid:
        raise UnitError(
            f"{folder} is no folder of the user {user}: install -d -m 700 -o {user} -g {user} "
            f"{folder}; files that are in it: chown -R {user}:{user} {folder}"
        )


def _folder_of(path: Path) -> str:
    lines = path.read_text().splitlines()
    found = [line.partition("=")[2] for line in lines if line.startswith("WorkingDirectory=")]
    return found[0].replace("%%", "%") if found else "its folder"


def _user_name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _manager(options: argparse.Namespace) -> list[str]:
    return ["systemctl", "--user"] if options.user else ["systemctl"]


def _systemctl(options: argparse.Namespace, *words: str) -> None:
    _checked([*_manager(options), *words])


def _checked(words: Sequence[str]) -> None:
    """Run a program of systemd. If the program fails, raises `UnitError` with the program's
    output."""
    done = subprocess.run(  # noqa: S603 - no shell; names are checked
        words, check=False, capture_output=True, text=True, timeout=_MANAGER_S
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"status {done.returncode}"
        raise UnitError(f"{' '.join(words)}: {said}")
