"""Only the platforms that an operator enables are imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from nekro_core.app.adapters import AdapterDirectory, load_adapter
from nekro_core.testing.memory_host import MemoryHost
from tests.adapters.uniseg.peers import NAMES
from tests.adapters.uniseg.stock import Recorder, as_nonebots

ROOT = Path(__file__).parents[3]
FOUND = AdapterDirectory.find(ROOT / "no data").manifests
PLATFORMS = tuple(name for name, each in FOUND.items() if each.folder.name == "uniseg")
BY_NAME = tuple(name for name, each in FOUND.items() if not each.always)
UNPAID = """
import sys
from pathlib import Path
from nekro_core.app.adapters import AdapterDirectory, adapter_makers
found = AdapterDirectory.find(Path("data"))
assert not found.problems
makers = adapter_makers(found, {}, ())
assert [each.name for each in makers] == ["onebot_v11", "web"]
heavy = ("nonebot_plugin_alconna", "arclet", "nekro_builtin.adapters.uniseg")
heavy += ("nekro_builtin.adapters.mail", "nekro_builtin.adapters.matrix")
assert not [name for name in sys.modules if name.startswith(heavy)]
"""


def test_platforms_that_are_not_enabled_are_not_imported() -> None:
    command = [sys.executable, "-c", UNPAID]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_each_platform_has_a_module_and_a_fake_platform() -> None:
    folder = ROOT / "adapters" / "uniseg" / "platforms"
    for name in PLATFORMS:
        assert (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
    assert set(NAMES) | {"telegram"} == set(PLATFORMS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("telegran", "no platform 'telegran'; did you mean telegram?"),
        ("myspace", f"there are {', '.join(sorted(BY_NAME))}"),
    ],
)
def test_an_unknown_platform_is_refused_with_a_suggestion(name: str, words: str) -> None:
    (said,) = AdapterDirectory.find(ROOT / "no data").unknown((name, "mail", "onebot_v11"))
    assert said.startswith("NEKRO_PLATFORMS: ")
    assert words in said


def test_the_error_names_a_missing_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nonebot.adapters.onebot.v12", None)
    for name in [name for name in sys.modules if name.endswith("uniseg.platforms.onebot_v12")]:
        monkeypatch.delitem(sys.modules, name)
    driver, wanted = Recorder(), {"nekro_platforms": ("onebot_v12",)}
    with as_nonebots(driver):
        maker = load_adapter(FOUND["onebot_v12"], wanted)
        with pytest.raises(RuntimeError, match=r"pip install 'nekro-core\[onebot-v12\]'"):
            maker.create(MemoryHost(tmp_path), driver, None)
