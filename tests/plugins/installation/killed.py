"""Kill a command that changes plugins at each of its file operations, and check what is left.

This is a separate program, because it forks: ``python -m tests.plugins.installation.killed
FOLDER``. A step is a file operation for which Python raises an audit event before it happens: a
rename, a deletion, a new folder, or a file that is opened for writing.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from loguru import logger

from nekro_core.plugins.host.file_moves import NOTE_NAME, recover_interrupted_move
from nekro_core.plugins.host.switches import PluginSwitches
from nekro_core.plugins.installation.check_order import CheckResult
from nekro_core.plugins.installation.install import Installer
from nekro_core.plugins.installation.installed import InstallRecords, recover_interrupted
from nekro_core.plugins.installation.sources import parse
from nekro_core.plugins.packages import PackageFolder

STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "open")
MOST = 400
DATA = {"d", "e", "f"}


def installer(data: Path) -> Installer:
    return Installer(
        data_dir=data,
        shelf=PackageFolder(data),
        ask=lambda _: True,
        say=lambda _: None,
        # A check changes no file of the data folder, and the test would run it a thousand times.
        check=lambda _: CheckResult(status=0, report="", loaded=True),
    )


def own_of(data: Path) -> Path:
    """The plugin's data folder."""
    return data / "plugin_data" / "ann.cup"


def write(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text(
        "from nekro_core.api.plugin import NekroPlugin\n"
        'plugin = NekroPlugin("cup", "cup", "", "1", "ann", "")\n'
    )
    for name in "abc":
        (folder / f"{name}.txt").write_text(text)


def killed_at(step: int, change: Callable[[], object]) -> bool:
    """Run the change in a child and kill it at this step. Return False if the change ended before
    this step."""
    child = os.fork()
    if not child:
        left = step

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            if event in STEPS and not (event == "open" and arguments[1] in ("r", "rb")):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        change()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        assert os.waitstatus_to_exitcode(status) == 0, "the change failed without being killed"
    return os.WIFSIGNALED(status)


def look(data: Path, step: int, *, may_be_gone: bool) -> str:
    """Recover as the next start does (odd steps) or as a command does. Return the plugin's text or
    ``gone``.

    Asserts that the plugin is complete or, if ``may_be_gone``, that it is removed completely.
    """
    if step % 2:
        recover_interrupted_move(data)
    recover_interrupted(data)
    place = data / "plugins" / "cup"
    found = {each.name: each.read_text() for each in place.glob("*.txt")} if place.exists() else {}
    texts = set(found.values())
    whole = len(found) == 3 and len(texts) == 1 and (place / "__init__.py").exists()
    assert whole or (may_be_gone and not place.exists()), f"step {step}: {found}"
    assert PluginSwitches(data).wanted("local/cup"), f"step {step}: the plugin was switched off"
    records = InstallRecords(data)
    assert ("local/cup" in records.all()) == bool(found), f"step {step}: {records.all()}"
    assert records.changed_since("local/cup") == [], f"step {step}"
    assert not (data / NOTE_NAME).exists(), f"step {step}"
    return texts.pop() if texts else "gone"


def main(folder: Path) -> None:
    """Kill update, rollback, remove, erase (remove with data) and install at each step. Print which
    states were found, and how often."""
    logger.remove()
    source = folder / "cup"
    for name in ("update", "rollback", "remove", "erase", "install"):
        seen: list[str] = []
        for step in range(MOST):
            data = folder / f"{name}{step}"
            write(source, "old")
            if name != "install":
                installer(data).install(parse(str(source)))
                own_of(data).mkdir(parents=True)
                for each in DATA:
                    (own_of(data) / each).write_text(each)
            write(source, "new")
            if name == "rollback":
                installer(data).update("cup")
            change: dict[str, Callable[[], object]] = {
                "update": lambda data=data: installer(data).update("cup"),  # type: ignore[misc]
                "rollback": lambda data=data: installer(data).roll_back("cup"),  # type: ignore[misc]
                "remove": lambda data=data: installer(data).remove("cup"),  # type: ignore[misc]
                "erase": lambda data=data: installer(data).remove("cup", data=True),  # type: ignore[misc]
                "install": lambda data=data: installer(data).install(parse(str(source))),  # type: ignore[misc]
            }
            killed = killed_at(step, change[name])
            seen.append(look(data, step, may_be_gone=name not in ("update", "rollback")))
            kept = {path.name for path in own_of(data).glob("*")}
            if name != "install":
                assert kept == (set() if name == "erase" and seen[-1] == "gone" else DATA), step
                assert own_of(data).exists() == bool(kept), step
            if not killed:
                break
        else:
            raise AssertionError(f"{name} is not through after {MOST} steps")
        counts = " ".join(f"{what}={seen.count(what)}" for what in sorted(set(seen)))
        print(f"{name} {len(seen)} {seen[0]}>{seen[-1]} {counts}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
