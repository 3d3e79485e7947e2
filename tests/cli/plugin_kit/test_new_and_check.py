"""``nekro plugin new`` writes a plugin that works, and ``check`` reports mistakes."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from nekro_core.cli.new_folder import NewRefused
from nekro_core.cli.plugin_kit.check import check
from nekro_core.cli.plugin_kit.new import write_new
from nekro_core.plugins.installation.inspection import inspect_plugin
from nekro_core.testing import NoPlugin
from tests.plugins.packages.wheels import make_wheel, only_these
from tests.plugins.world import HEADER


def test_new_writes_four_files(tmp_path: Path) -> None:
    written = write_new(tmp_path, "dice_cup", "you")
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "dice_cup/__init__.py",
        "dice_cup/tests/test_dice_cup.py",
        "dice_cup/README.md",
        "dice_cup/pytest.ini",
    ]
    assert not any("$" in path.read_text().replace("$name", "") for path in written)
    with pytest.raises(NewRefused, match="is there already"):
        write_new(tmp_path, "dice_cup", "you")


@pytest.mark.parametrize("name", ["", "1st", "for", "a-b", "a/b", "../up", "骰子", "_hidden"])
def test_a_name_that_cannot_be_a_module_is_refused(tmp_path: Path, name: str) -> None:
    for given in ((name, "you"), ("fine", name or "1")):
        with pytest.raises(NewRefused, match="letters, digits"):
            write_new(tmp_path, *given)
    assert list(tmp_path.iterdir()) == []


async def checked(path: Path) -> tuple[int, str]:
    out = io.StringIO()
    status = await check(path, out)
    return status, out.getvalue()


@pytest.mark.long
async def test_check_shows_what_the_model_sees(tmp_path: Path) -> None:
    write_new(tmp_path, "dice_cup", "you")
    status, text = await checked(tmp_path / "dice_cup")
    assert status == 0
    assert text.startswith("you.dice_cup 0.1.0: Dice cup. Greets people.\n")
    assert "dice_cup_greet(name: str, times=1)" in text
    assert '{"name": "dice_cup_greet", "description": "Greet somebody in the chat.", ' in text
    assert "of every prompt in code mode" in text
    assert text.endswith("nothing to mend\n")


DEFERRED = (
    HEADER.format(name="many", author="ann").replace('"ann")', '"ann", allow_sleep=True)')
    + '''
@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "weather", "Say what the weather is. Today.")
async def weather(_ctx: AgentCtx, city: str) -> str:
    """Say what the weather is."""
    return city


@plugin.mount_prompt_inject_method("many")
async def notes(_ctx: AgentCtx) -> str:
    return "It rains a lot."
'''
)


@pytest.mark.long
async def test_check_counts_the_tokens_of_deferred_tools_and_of_the_prompt_text(
    tmp_path: Path,
) -> None:
    (tmp_path / "many.py").write_text(DEFERRED)
    _, text = await checked(tmp_path / "many.py")
    assert "(tool_search):\n\nweather: Say what the weather is" in text
    assert "What it adds to every prompt:\n\nIt rains a lot." in text
    assert "5 what it adds to every prompt" in text
    assert "the lines of those that are found by searching" in text


NO_PYTEST = """
import sys
from importlib.abc import MetaPathFinder

class NoPytest(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("pytest", "_pytest"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoPytest())
from nekro_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
async def test_check_installs_the_packages_of_a_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_these(tmp_path / "index", monkeypatch)
    make_wheel(tmp_path / "index", "nk_checked", "1.0")
    write_new(tmp_path, "dice_cup", "you")
    init = tmp_path / "dice_cup" / "__init__.py"
    init.write_text(f"import nk_checked\n{init.read_text()}")
    (tmp_path / "dice_cup" / "requirements.txt").write_text("nk_checked")
    status, text = await checked(tmp_path / "dice_cup")
    assert (status, text.splitlines()[0]) == (0, "got nk-checked 1.0")
    (tmp_path / "dice_cup" / "requirements.txt").write_text("nk_checked>=2")
    status, text = await checked(tmp_path / "dice_cup")
    assert (status, "local/dice_cup needs nk_checked>=2, and the package" in text) == (1, True)


@pytest.mark.long
def test_check_needs_no_pytest(tmp_path: Path) -> None:
    write_new(tmp_path, "dice_cup", "you")
    command = [sys.executable, "-c", NO_PYTEST, "plugin", "check", "dice_cup"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert (done.returncode, "nothing to mend" in done.stdout) == (0, True), done.stderr


FAULTY = (
    HEADER.format(name="bad", author="ann")
    + """
import time

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "slow", "Wait.")
async def slow(_ctx: AgentCtx, seconds):
    time.sleep(seconds)

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "slower", "Wait longer.")
async def slower(_ctx: AgentCtx): ...
"""
)


@pytest.mark.long
async def test_check_reports_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(FAULTY)
    status, text = await checked(tmp_path / "bad.py")
    assert status == 0
    for finding in (
        "time.sleep() waits, and every chat waits with it",
        "no annotation for seconds",
        "no docstring",
        "no worked example in en, zh, ja: slow, slower. The built-in small model",
        "nothing says what seconds means",
    ):
        assert f"warning: {tmp_path / 'bad.py'}:" in text
        assert "nekro-check-" not in text
        assert text.count(finding) >= 1
    assert text.count("no worked example") == 1
    (tmp_path / "bad.py").write_text(FAULTY.replace("async def", "def"))
    status, text = await checked(tmp_path / "bad.py")
    assert status == 1
    assert "error: " in text
    (tmp_path / "bad.py").write_text("import nothing_of_this_name")
    status, text = await checked(tmp_path / "bad.py")
    assert (status, "nothing_of_this_name" in text) == (1, True)
    with pytest.raises(NoPlugin, match=r"no plugin; expected a file x\.py"):
        await check(tmp_path / "missing", io.StringIO())


def test_inspecting_the_source_of_a_plugin_reports_what_it_does(tmp_path: Path) -> None:
    folder = tmp_path / "spy"
    (folder / "tests").mkdir(parents=True)
    (folder / "__init__.py").write_text(
        HEADER.format(name="spy", author="ann")
        + """
import os, subprocess
from . import inner

@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="peep", description="Look.")
async def peep(_ctx): ...

@plugin.mount_command("spy", "Look.")
async def spy(context): ...

@plugin.mount_on_user_message()
async def hear(_ctx, message): ...

KEY = os.environ["KEY"]
"""
    )
    (folder / "inner.py").write_text("import httpx\n\ndef f():\n    open('/etc/passwd')\n")
    (folder / "broken.py").write_text("def broken(:")
    (folder / "tests" / "test_spy.py").write_text("import socket")
    looked = inspect_plugin(folder)
    assert (looked.key, looked.version, looked.tools) == ("ann.spy", "1", ("peep",))
    assert looked.commands == ("spy",)
    assert {(each.text, each.where) for each in looked.abilities} == {
        ("starts programs on this machine (subprocess)", "__init__.py:7"),
        ("reads every message before the bot does, and may keep it from it", "__init__.py:16"),
        ("reads the environment, where keys may be", "__init__.py:19"),
        ("talks to the network (httpx)", "inner.py:1"),
        ("reads or writes files of this machine", "inner.py:4"),
    }
    assert [each.partition(":")[0] for each in looked.unreadable] == ["broken.py"]


async def test_check_shows_the_tools_of_a_plugin_for_one_adapter(tmp_path: Path) -> None:
    plugin = tmp_path / "muter.py"
    plugin.write_text(
        "from nekro_core.api.plugin import NekroPlugin, SandboxMethodType\n"
        "from nekro_core.api.schemas import AgentCtx\n"
        "plugin = NekroPlugin('Muter', 'muter', 'Mutes.', '1', 'ann',\n"
        "                     support_adapter=['onebot_v11'])\n"
        "@plugin.mount_sandbox_method(SandboxMethodType.TOOL, 'mute', 'Mute.')\n"
        "async def mute(_ctx: AgentCtx, user_id: str) -> str:\n"
        "    '''Mute a person.\n\n    Args:\n        user_id: Whom.\n    '''\n"
        "    return 'muted'\n"
    )
    out = io.StringIO()
    assert await check(plugin, out) == 0
    assert "mute(user_id: str)" in out.getvalue()
