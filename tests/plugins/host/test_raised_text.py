"""The bot knows which error texts the plugin itself wrote. This is tested on each installed
Python."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nekro_core.plugins.host import raised_text as module
from nekro_core.plugins.host.raised_text import raised_text

PLUGIN = """
from library import connect

def raises(): raise ValueError("own")
def asserts(): assert not connect, "own"
def raises_from():
    try: {}["secret"]
    except KeyError as error: raise RuntimeError("own") from error
def looks_up(): return {}["secret"]
def converts(): return int("secret")
def calls(): connect()
def calls_back(): return max([1], key=lambda _: {}["secret"])
def raises_again():
    try: looks_up()
    except KeyError: raise
def raises_the_same():
    try: {}["secret"]
    except KeyError as error: raise error
def raises_the_librarys():
    try: connect()
    except OSError as error: raise error from None
def ends():
    try: return {}["secret"]
    finally: connect.__name__
def runs(): exec("raise ValueError('secret')")

CASES = [each for name, each in [*globals().items()] if callable(each) and name != "connect"]
"""
LIBRARY = "def connect(): raise OSError('secret')\n"
OWN = {"raises", "asserts", "raises_from"}
RUN = """
import importlib.util, json, sys
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
raised_text, folder = load("raised_text", sys.argv[1]).raised_text, sys.argv[2]
load("library", folder + "/library.py")
told = {}
for case in load("plugin", folder + "/plugin/__init__.py").CASES:
    for _ in range(100):  # Python specializes code that runs often
        try: case()
        except Exception as error: told[case.__name__] = raised_text(error, folder + "/plugin")
print(json.dumps(told))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "__init__.py").write_text(PLUGIN)
    (tmp_path / "library.py").write_text(LIBRARY)
    return tmp_path


@pytest.mark.parametrize("python", [sys.executable, "python3.12", "python3.13", "python3.14"])
def test_only_texts_that_a_plugin_itself_raises_are_shown(folder: Path, python: str) -> None:
    found = shutil.which(python)
    works = found and subprocess.run([found, "-c", ""], capture_output=True, check=False)
    if not found or not works or works.returncode:
        pytest.skip(f"{python} is not installed")
    command = [found, "-c", RUN, str(module.__file__), str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(run.stdout)
    assert len(told) == 12
    assert {name for name, text in told.items() if text} == OWN
    assert {text for text in told.values() if text} == {"own"}


@pytest.mark.parametrize(
    ("own_files", "shown"),
    [
        ("plugin", "own"),
        ("plugin/__init__.py", "own"),
        ("plu", ""),
        ("other", ""),
        ("", ""),
    ],
)
def test_the_error_must_come_from_a_file_of_the_plugin(
    folder: Path, own_files: str, shown: str
) -> None:
    path = folder / "plugin" / "__init__.py"
    assert raised_in(path, str(folder / own_files) if own_files else "") == shown


def test_packages_in_the_folder_of_a_plugin_do_not_count_as_its_own_code(folder: Path) -> None:
    path = folder / "plugin" / "site-packages" / "library.py"
    assert raised_in(path, str(folder / "plugin")) == ""


def raised_in(path: Path, own_files: str) -> str:
    made = ModuleType("made")
    exec(compile("def fail(): raise ValueError('own')", path, "exec"), vars(made))
    with pytest.raises(ValueError, match="own") as failed:
        made.fail()
    return raised_text(failed.value, own_files)
