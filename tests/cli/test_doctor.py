"""`nekro doctor` tries each part for real and reports each problem with its remedy."""

import socket
from pathlib import Path

import pytest

from nekro_core.app.health import _adapters, _packages, examine
from nekro_core.app.instance import instance_file
from nekro_core.app.settings import Settings
from nekro_core.operator.health import Finding
from nekro_core.store import DataFolderLock
from tests.cli.nekro import nekro_meanwhile
from tests.peers.listener import TranscriptionServer
from tests.peers.scripted_model import Answer, ScriptedModelServer

KEY = "sk-a-key-that-nobody-may-see"

pytestmark = [pytest.mark.jail, pytest.mark.long]


async def findings(folder: Path) -> dict[str, Finding]:
    """The doctor's findings by area. If an area has several findings, the last bad one is
    returned."""
    found: dict[str, Finding] = {}
    async for finding in examine(Settings.load(folder)):
        if finding.area not in found or finding.ok is False:
            found[finding.area] = finding
    return found


async def test_doctor_finds_no_problem_on_a_healthy_machine(folder: Path, write_env) -> None:
    async with (
        ScriptedModelServer(["Hi!"], api_key=KEY) as model,
        TranscriptionServer() as transcriber,
    ):
        write_env(
            NEKRO_LLM__BASE_URL=model.base_url,
            NEKRO_LLM__MODEL="m",
            NEKRO_LLM__API_KEY=KEY,
            NEKRO_SPEECH__TRANSCRIBER__BASE_URL=transcriber.base_url,
        )
        found = await findings(folder)
    assert [f for f in found.values() if f.ok is False] == []
    assert "Python" in found["system"].seen
    assert "as they should" in found["code"].seen
    assert found["bot"].seen == "does not run; port 0 is free for it"
    assert found["database"].seen == "is made at the first start"
    assert "checks hold" in found["boxes"].seen
    assert found["model"].seen == f"m at {model.base_url} answers"
    assert "says hello" in found["voice"].seen
    assert found["sound"].seen == "voices of every kind are decoded"
    assert found["hearing"].seen == f"whisper-1 at {transcriber.base_url} listens"
    assert found["adapters"].seen == "onebot_v11, web run with the bot"
    assert not (folder / "data").exists(), "the doctor must not make the data folder"


async def test_doctor_reports_all_problems_in_one_run(folder: Path, write_env) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "nekro.sqlite3").write_text("this is no database" * 100)
    with socket.create_server(("127.0.0.1", 0)) as other:
        write_env(
            PORT=str(other.getsockname()[1]),
            NEKRO_LLM__BASE_URL="http://127.0.0.1:9/v1",
            NEKRO_LLM__MODEL="m",
            NEKRO_LLM__RETRIES="0",
            NEKRO_SANDBOX__BACKEND="jail",
            NEKRO_SANDBOX__INTERPRETER="/nonexistent",
            NEKRO_SPEECH__ENGINE="http",
            NEKRO_SPEECH__BASE_URL="http://127.0.0.1:9/v1",
            NEKRO_SPEECH__TRANSCRIBER__BASE_URL="http://127.0.0.1:9/v1",
        )
        found = await findings(folder)
    bad = {area: finding for area, finding in found.items() if finding.ok is False}
    assert set(bad) == {"bot", "database", "boxes", "model", "voice", "hearing"}
    assert all(finding.remedy for finding in bad.values())
    assert "another program holds it" in bad["bot"].remedy
    assert "/nonexistent" in bad["boxes"].seen + bad["boxes"].remedy
    assert "127.0.0.1:9" in bad["model"].seen


async def test_a_wrong_api_key_is_reported_and_never_shown(folder: Path, write_env) -> None:
    rude = Answer(status=401, error={"message": f"Incorrect API key provided: {KEY}"})
    async with ScriptedModelServer(lambda _: rude) as model:
        write_env(NEKRO_LLM__BASE_URL=model.base_url, NEKRO_LLM__MODEL="m", NEKRO_LLM__API_KEY=KEY)
        (folder / "data" / "secrets").mkdir(parents=True)
        token = folder / "data" / "secrets" / "web_access_token"
        token.write_text("a-token-that-nobody-may-see")
        ended = await nekro_meanwhile(folder, "doctor")
    assert ended.status == 1
    assert "FAIL model" in ended.out
    assert "1 to mend" in ended.out
    assert "web_access_token: cat " in ended.out
    assert "nobody-may-see" not in ended.out + ended.err
    assert "Traceback" not in ended.out + ended.err


async def test_a_missing_model_file_is_reported(folder: Path, write_env) -> None:
    write_env(NEKRO_EMBEDDED__MODEL_FILE=str(folder / "gone.gguf"))
    found = await findings(folder)
    assert found["model"].ok is False
    assert "gone.gguf" in found["model"].remedy


async def test_weights_that_the_first_start_will_download_are_not_a_problem(
    folder: Path, write_env
) -> None:
    write_env()
    found = await findings(folder)
    assert found["model"].ok is None
    assert "the running bot downloads its weights" in found["model"].seen


async def test_a_bot_that_hangs_is_reported_and_one_that_was_killed_is_not(
    folder: Path, write_env
) -> None:
    write_env(
        NEKRO_LLM__BASE_URL="http://127.0.0.1:9/v1",
        NEKRO_LLM__MODEL="m",
        NEKRO_LLM__RETRIES="0",
        NEKRO_SANDBOX__INTERPRETER="/nonexistent",
    )
    data = folder / "data"
    with DataFolderLock(data), instance_file(data, "127.0.0.1", 9, ""):
        found = await findings(folder)
        note = (data / "running.json").read_bytes()
    assert found["bot"].ok is False
    assert "should answer at http://127.0.0.1:9" in found["bot"].seen
    assert found["database"].seen == "in use by the running bot"

    # After kill -9 the file stays, but no process has the lock of the data folder any more.
    (data / "running.json").write_bytes(note)
    found = await findings(folder)
    assert found["bot"].seen == "does not run; port 0 is free for it"
    assert found["database"].ok is True


async def test_adapters_that_cannot_run_are_reported(folder: Path, write_env) -> None:
    broken = folder / "data" / "adapters" / "slack"
    broken.mkdir(parents=True)
    (broken / "adapter.toml").write_text("[slack]\nfly = true")
    write_env(NEKRO_PLATFORMS='["telegran"]')
    said = [one.seen for one in _adapters(Settings.load(folder)) if one.ok is False]
    assert len(said) == 2
    assert "[slack] fly is not known" in said[0]
    assert "no platform 'telegran'; did you mean telegram?" in said[1]


class Packages:
    """A fake of the packages that boxes share: these names are installed, or fetching failed for
    this reason."""

    def __init__(self, *names: str, failure: str = "") -> None:
        self.names = names
        self.failure = failure
        self.place = "a folder"

    async def fetch(self) -> None:
        raise AssertionError("the doctor fetches nothing")


def test_packages_of_boxes_are_reported_with_the_reason_if_they_could_not_be_fetched() -> None:
    there = _packages(Packages("numpy", "pandas"))
    assert (there.ok, there.seen) == (True, "can import numpy, pandas")
    failed = _packages(Packages(failure="no index; see that pip reaches it"))
    assert (failed.ok, failed.remedy) == (False, "no index; see that pip reaches it")
    missing = _packages(Packages())
    assert missing.ok is None
    assert "the running bot fetches them" in missing.seen
