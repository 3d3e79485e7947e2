"""The wheel, installed outside the checkout, contains all of the bot and nothing else."""

import asyncio
import email
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import anyio
import httpx
import pytest
from packaging.specifiers import SpecifierSet
from trove_classifiers import classifiers

from tests.e2e.bot_process import ROOT, START_S, running_bot
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = [pytest.mark.jail, pytest.mark.long]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by `pip wheel` with the installed build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (built,) = folder.glob("nekro_core-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    """A new environment with only the wheel. Its dependencies are imported from the environment of
    the tests."""
    folder = wheel.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    _pip("--python", str(folder / "bin" / "python"), "install", "--no-deps", "--no-index", wheel)
    (packages,) = folder.glob("lib/python*/site-packages")
    # The environment of the tests names the checkout in a .pth file. Python searches the folders
    # that our needed.pth names, but ignores the .pth files in these folders. So Python does not
    # find the checkout.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def _pip(*arguments: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, *arguments], check=True, capture_output=True)


def test_the_wheel_has_every_file_of_the_bot_and_no_test(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = files("nekro_core") | {
        f"nekro_core/_builtin/{name}"
        for name in files("adapters") | files("plugins") | {"CHANGELOG.md"}
    }
    assert held == wanted
    assert "nekro_core/_builtin/adapters/web/static/nekro_chat.js" in held
    assert "nekro_core/_builtin/adapters/web/texts/ja.toml" in held


def test_the_metadata_of_the_wheel_fit_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(path))
    assert wheel.name == f"nekro_core-{metadata['Version']}-py3-none-any.whl"
    assert metadata["License-Expression"] == "MIT"
    assert metadata.get_all("License-File") == ["LICENSE"]
    named = metadata.get_all("Classifier") or []
    assert set(named) <= classifiers
    prefix = "Programming Language :: Python :: 3."
    versions = {each.removeprefix(prefix) for each in named if each.startswith(prefix)}
    allowed = SpecifierSet(metadata["Requires-Python"])
    assert versions == {str(n) for n in range(9, 20) if f"3.{n}" in allowed}
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert metadata["Version"] in changes


def test_the_installed_command_prints_the_version_of_the_wheel(
    wheel: Path, environment: Path, tmp_path: Path
) -> None:
    said = subprocess.run(
        [environment / "bin" / "nekro", "--version"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout == f"nekro-core {wheel.name.split('-')[1]}\n"


async def test_without_settings_the_data_folder_is_made_where_the_bot_is_started(
    environment: Path, tmp_path: Path
) -> None:
    given = {name: value for name, value in os.environ.items() if name != "NEKRO_DATA_DIR"}
    given |= {"PORT": "0", "NEKRO_EMBEDDED__DOWNLOAD": "false"}
    with (tmp_path / "bot.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(environment / "bin" / "nekro", "run"), cwd=tmp_path, env=given, stdout=log, stderr=log
        )
    note = tmp_path / "data" / "running.json"
    try:
        with anyio.fail_after(START_S):
            while not note.exists():
                assert process.returncode is None, (tmp_path / "bot.log").read_text()
                await anyio.sleep(0.05)
        assert json.loads(note.read_text())["pid"] == process.pid
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
    assert {each.name for each in tmp_path.iterdir()} == {"bot.log", "data"}
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
    assert process.returncode == 0


def files(folder: str) -> set[str]:
    """The files below a folder of the checkout."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.relative_to(ROOT).as_posix() for path in found if path.suffix != ".pyc"}


async def test_nekro_run_in_an_empty_folder_serves_page_and_answers(
    environment: Path, tmp_path: Path
) -> None:
    async with ScriptedModelServer(['send_channel_message("from the wheel")']) as model:
        settings = {
            "NEKRO_LLM__BASE_URL": model.base_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
        }
        command = (str(environment / "bin" / "nekro"), "run")
        async with running_bot(tmp_path, command, **settings) as bot:
            where = subprocess.run(
                [environment / "bin" / "python", "-c", "import nekro_core; print(nekro_core)"],
                cwd=tmp_path,
                check=True,
                capture_output=True,
                text=True,
            )
            assert str(environment) in where.stdout
            async with httpx.AsyncClient(
                follow_redirects=True, trust_env=False, timeout=60
            ) as browser:
                assert (await browser.get(await bot.login_link())).status_code == 200
                page = await browser.get(bot.address)
                assert page.url.path.startswith("/ui")
                script = re.search(r'"(/ui/[^"]+nekro_chat[^"]*\.js)"', page.text)
                assert script is not None, page.text[:2000]
                served = await browser.get(bot.address + script[1])
                assert served.status_code == 200
            room = f"{bot.address}/api/v1/rooms/private_lin/messages"
            headers = {"Authorization": f"Bearer {bot.token}"}
            async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as client:
                await client.post(room, json={"speaker": "lin", "text": "hello"})
                with anyio.fail_after(60):
                    while "from the wheel" not in (await client.get(room)).text:
                        await anyio.sleep(0.1)
