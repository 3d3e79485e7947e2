"""The commands and files of the guide's first plugin work in a fresh clone."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs").glob("plugins*.md"))
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FIRST = re.compile(r"^## [^\n]+\n(.*?)^1\. \*\*", re.DOTALL | re.MULTILINE)
"""The first section of the guide, up to its numbered list."""
_STEP = re.compile(
    r"`(?P<path>dice_cup/[\w./]+)`\n\n```python\n(?P<text>.*?)^```|^```sh\n(?P<sh>.*?)^```",
    re.DOTALL | re.MULTILINE,
)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Every block of code: its language and its text."""
    return [(found[1], found[2]) for found in _BLOCK.finditer(page.read_text("utf-8"))]


def script(page: Path) -> str:
    """The commands and files of the first section as one shell script."""
    section = _FIRST.search(page.read_text("utf-8"))
    assert section is not None
    lines = ["set -euo pipefail"]
    for step in _STEP.finditer(section[1]):
        if step["sh"]:
            lines.append(step["sh"])
        else:
            lines.append(f"cat > {step['path']} <<'END-OF-BLOCK'\n{step['text']}END-OF-BLOCK")
    return "\n".join(lines)


def test_the_guide_has_the_same_code_in_each_language() -> None:
    english, *others = (blocks(page) for page in PAGES)
    assert english
    assert all(other == english for other in others)
    assert len({script(page) for page in PAGES}) == 1


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of this repository with the environment that ``make kit`` makes. Nothing is
    downloaded: the environment uses the packages of the environment that runs the tests."""
    clone = tmp_path / "nekro-core"
    run("git", "clone", "--quiet", str(ROOT), str(clone))
    environment = clone / ".venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    (packages,) = environment.glob("lib/python*/site-packages")
    # Python searches the folders that a .pth file names, but ignores the .pth files in these
    # folders. So Python does not find the editable install of this checkout, and imports the clone.
    (packages / "clone.pth").write_text(f"{clone}\n{sysconfig.get_path('purelib')}\n")
    nekro = environment / "bin" / "nekro"
    nekro.write_text(
        f"#!{environment}/bin/python\n"
        "import sys\n\nfrom nekro_core.cli import main\n\nsys.exit(main())\n"
    )
    nekro.chmod(0o755)
    for stamp in (".made", ".installed", ".installed-kit"):
        (environment / stamp).touch()
    return clone


def run(*command: str, folder: Path = ROOT, typed: str = "") -> str:
    """Run a command without the settings of any bot on this machine; returns its output."""
    unset = ("NEKRO_", "ONEBOT_", "WEB_", "VIRTUAL_ENV", "PYTEST", "MAKE")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(unset)}
    done = subprocess.run(
        command,
        cwd=folder,
        check=False,
        env=environment,
        input=typed,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.jail
@pytest.mark.timeout(400)
def test_the_first_plugin_of_the_guide_works_in_a_fresh_clone(clone: Path) -> None:
    said = run("bash", "-c", script(ROOT / "docs" / "plugins.md"), folder=clone, typed="y\n")
    assert "\nshake(sides=6, count=1)\n    Roll dice" in said
    assert "of every prompt in code mode" in said
    assert re.search(r"=+ 2 passed in", said), said
    assert "Install it? [y/N] local/dice_cup is installed" in said
    assert (clone / "data" / "plugins" / "dice_cup" / "__init__.py").is_file()
    listed = run(str(clone / ".venv" / "bin" / "nekro"), "plugin", "list", folder=clone)
    assert listed.startswith("new       you.dice_cup 1.0.0\n")
    assert str(clone / "dice_cup") in listed
