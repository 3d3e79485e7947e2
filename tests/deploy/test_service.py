"""`nekro service` writes a systemd unit in which the bot's jail works."""

import pwd
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nekro_core.cli.service.command import RUNNING
from nekro_core.cli.service.found import commands_to_install_again
from nekro_core.cli.service.unit import STATE, ServiceUnit, UnitError, unit_file
from tests.cli.nekro import nekro

PROGRAM = Path(sys.executable)
FORBIDS_BOXES = (
    "MemoryDenyWriteExecute",
    "PrivateUsers",
    "ProcSubset",
    "ProtectControlGroups",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelTunables",
    "RestrictNamespaces",
    "SystemCallFilter",
)
"""With each of these options, a box does not start, or has no cgroup, or cannot run Node."""


def options(text: str) -> dict[str, str]:
    """Return the options of a unit by name. If several lines have the same name, the last one
    counts."""
    lines = (line for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def of_machine(folder: Path = STATE) -> ServiceUnit:
    return ServiceUnit(program=PROGRAM, folder=folder, user="nekro")


def of_user(folder: Path) -> ServiceUnit:
    return ServiceUnit(program=PROGRAM, folder=folder)


def test_a_service_gets_cgroups_and_nothing_that_forbids_boxes(tmp_path: Path) -> None:
    for unit in (of_machine(), of_machine(tmp_path), of_user(tmp_path)):
        found = options(unit.text)
        assert found["Delegate"] == "yes"
        assert found["NoNewPrivileges"] == "yes"
        assert not found.keys() & set(FORBIDS_BOXES)


def test_a_service_of_the_machine_runs_as_its_own_user_and_writes_to_its_folder_only(
    tmp_path: Path,
) -> None:
    found = options(of_machine().text)
    assert (found["User"], found["ProtectSystem"]) == ("nekro", "strict")
    assert (found["WorkingDirectory"], found["StateDirectory"]) == ("/var/lib/nekro", "nekro")
    assert found["CapabilityBoundingSet"] == ""
    elsewhere = options(of_machine(tmp_path).text)
    assert elsewhere["ReadWritePaths"] == f'"{tmp_path}"'
    assert "StateDirectory" not in elsewhere


def test_a_service_of_a_user_asks_for_nothing_that_only_root_can_give(tmp_path: Path) -> None:
    found = options(of_user(tmp_path).text)
    assert not found.keys() & {"User", "StateDirectory", "ProtectSystem", "PrivateTmp"}
    assert found["WantedBy"] == "default.target"


def test_paths_with_blanks_and_percent_signs_are_written_as_systemd_needs_them() -> None:
    found = options(of_machine(Path("/srv/my 100% bot")).text)
    assert found["WorkingDirectory"] == "/srv/my 100%% bot"
    assert found["ReadWritePaths"] == '"/srv/my 100%% bot"'


@pytest.mark.parametrize("folder", ["relative", '/srv/a"b', "/srv/a\nb", "/srv/$HOME", "/srv/a\\b"])
def test_paths_that_mean_something_else_in_a_unit_are_refused(folder: str) -> None:
    with pytest.raises(UnitError, match="expected an absolute path"):
        of_machine(Path(folder))


@pytest.mark.parametrize("user", ["Root", "a b", "-x", "nekro\nExecStart=/bin/sh"])
def test_a_text_that_cannot_be_the_name_of_a_user_is_refused(user: str) -> None:
    with pytest.raises(UnitError, match="expected the name of a user"):
        ServiceUnit(program=PROGRAM, folder=STATE, user=user)


def test_the_unit_file_is_in_the_folder_in_which_systemd_looks_for_it(tmp_path: Path) -> None:
    assert unit_file("bot", of_user=False, home=tmp_path) == Path("/etc/systemd/system/bot.service")
    own = unit_file("bot", of_user=True, home=tmp_path)
    assert own == tmp_path / ".config/systemd/user/bot.service"
    for name in ("../../etc/passwd", "a b", ""):
        with pytest.raises(UnitError, match="expected a name"):
            unit_file(name, of_user=True, home=tmp_path)


@pytest.mark.parametrize("of_whole_machine", [True, False])
def test_systemd_accepts_the_unit(tmp_path: Path, *, of_whole_machine: bool) -> None:
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    # systemd checks whether the user exists, so the unit of this test names one that each machine
    # has: root.
    user = pwd.getpwuid(0).pw_name
    unit = ServiceUnit(program=PROGRAM, folder=STATE, user=user if of_whole_machine else "")
    path = tmp_path / "nekro.service"
    path.write_text(unit.text)
    manager = () if of_whole_machine else ("--user",)
    done = subprocess.run(
        [verifier, "verify", "--man=no", "--recursive-errors=no", *manager, path],
        check=False,
        capture_output=True,
        text=True,
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    # systemd also reports faults in units of the machine itself, which do not matter here.
    ours = [line for line in done.stderr.splitlines() if "nekro.service" in line]
    assert ours == []
    assert done.returncode == 0, done.stderr


def test_systemd_names_a_fault_in_a_unit(tmp_path: Path) -> None:
    """The check of `test_systemd_accepts_the_unit` can fail: systemd reports a value that it does
    not know."""
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    path = tmp_path / "nekro.service"
    path.write_text(of_machine().text.replace("KillMode=mixed", "KillMode=kindly"))
    done = subprocess.run(
        [verifier, "verify", "--man=no", path], check=False, capture_output=True, text=True
    )
    assert re.search(r"nekro.service.*kindly", done.stderr)


def test_show_prints_the_unit_and_writes_nothing(tmp_path: Path) -> None:
    ended = nekro(tmp_path, "service", "show", "--user")
    assert ended.status == 0, ended.err
    found = options(ended.out)
    assert found["WorkingDirectory"] == str(tmp_path)
    program = found["ExecStart"].removesuffix(" run").strip('"')
    assert Path(program).name == "nekro"
    assert Path(program).exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(RUNNING.exists(), reason="systemd manages this machine")
def test_without_systemd_the_installation_says_what_to_do_instead(tmp_path: Path) -> None:
    ended = nekro(tmp_path, "service", "install", "--user")
    assert ended.status == 1
    assert "systemd does not manage this machine. `nekro service show` prints" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_status_and_removal_fail_for_a_service_that_is_not_installed(tmp_path: Path) -> None:
    name = ("--name", "nekro-that-nobody-installed", "--user")
    status = nekro(tmp_path, "service", "status", *name)
    assert status.status == 3
    assert "is not there; `nekro service install` writes it" in status.out
    removed = nekro(tmp_path, "service", "remove", *name)
    assert removed.status == 1


def test_the_program_that_a_service_starts_can_be_chosen_and_must_exist(tmp_path: Path) -> None:
    program = tmp_path / "versions/current/bin/nekro"
    missing = nekro(tmp_path, "service", "show", "--user", "--program", str(program))
    assert missing.status == 1
    assert f"{program} is not there" in missing.err
    program.parent.mkdir(parents=True)
    program.touch()
    ended = nekro(tmp_path, "service", "show", "--user", "--program", str(program))
    assert options(ended.out)["ExecStart"] == f'"{program}" run'


def test_after_an_upgrade_each_service_of_the_bot_is_named_that_starts_another_program(
    tmp_path: Path,
) -> None:
    machine, own, bot = (tmp_path / name for name in ("machine", "own", "my 100% bot"))
    for each in (machine, own, bot):
        each.mkdir()
    new = bot / "versions/current/bin/nekro"
    old = Path("/opt/pipx/bin/nekro")
    units = {
        machine / "cat.service": ServiceUnit(program=old, folder=bot, user="mei"),
        own / "nekro.service": ServiceUnit(program=old, folder=bot),
        own / "new.service": ServiceUnit(program=new, folder=bot),
        own / "elsewhere.service": ServiceUnit(program=old, folder=tmp_path),
    }
    for path, unit in units.items():
        path.write_text(unit.text)
    text = units[own / "nekro.service"].text
    (own / "by-hand.service").write_text(text.partition("\n")[2])
    (own / "binary.service").write_bytes(b"\xff")
    found = commands_to_install_again(new, bot, machine=machine, of_user=own)
    assert [shlex.split(command) for command in found] == [
        [
            *("sudo", str(old), "service", "install", "--program", str(new)),
            *("--folder", str(bot), "--as", "mei", "--name", "cat"),
        ],
        [
            *(str(new), "service", "install", "--program", str(new)),
            *("--folder", str(bot), "--user", "--name", "nekro"),
        ],
    ]
