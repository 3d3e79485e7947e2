"""What an operator enables, and that nothing else is paid for."""

import subprocess
import sys
from pathlib import Path

import pytest

from adapters.uniseg import factories
from adapters.uniseg.enabled import ELSEWHERE, PLATFORMS
from tests.adapters.onebot_v11.memory_host import MemoryHost
from tests.adapters.uniseg.peers import NAMES
from tests.adapters.uniseg.stock import Recorder, as_nonebots

ROOT = Path(__file__).parents[3]
UNPAID = """
import sys
from nekro_core.plugins.host.builtin import load_adapter
for name in ("uniseg", "mail", "matrix"):
    assert not load_adapter(name).factories({})
assert not load_adapter("uniseg").factories({"nekro_platforms": ("mail", "matrix")})
heavy = ("nonebot_plugin_alconna", "arclet", "nonebot.adapters.")
assert not [name for name in sys.modules if name.startswith(heavy)]
"""


def test_what_is_not_enabled_is_not_imported() -> None:
    command = [sys.executable, "-c", UNPAID]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_platform_has_its_module_and_its_tests() -> None:
    folder = ROOT / "adapters" / "uniseg" / "platforms"
    for name in PLATFORMS:
        assert (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
    assert set(NAMES) | {"telegram"} == set(PLATFORMS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("telegran", "no platform 'telegran'; did you mean telegram?"),
        ("myspace", f"there are {', '.join(sorted(PLATFORMS + ELSEWHERE))}"),
    ],
)
def test_a_name_that_is_none_is_refused_with_what_there_is(
    tmp_path: Path, name: str, words: str
) -> None:
    create = factories({"nekro_platforms": (name,)})[name]
    with pytest.raises(ValueError, match="NEKRO_PLATFORMS") as refused:
        create(MemoryHost(tmp_path), Recorder())
    assert words in str(refused.value)


def test_an_extra_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nonebot.adapters.onebot.v12", None)
    for name in [name for name in sys.modules if name.endswith("uniseg.platforms.onebot_v12")]:
        monkeypatch.delitem(sys.modules, name)
    driver = Recorder()
    with as_nonebots(driver):
        create = factories({"nekro_platforms": ("onebot_v12",)})["onebot_v12"]
    with pytest.raises(RuntimeError, match=r"pip install 'nekro-core\[onebot-v12\]'"):
        create(MemoryHost(tmp_path), driver)
