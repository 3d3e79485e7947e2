"""The scripted model reads script files and can be started as a program."""

import sys
from pathlib import Path
from subprocess import PIPE

import anyio
import pytest

from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import ModelUnreachable, ReplyFinished
from nekro_core.llm.settings import LLMSettings
from tests.llm.conformance import ask, listen, words_of
from tests.peers.scripted_model import ScriptedModelServer, read_script

SCRIPT = """
[[rule]]
match = "dice"
reply = "roll_dice(sides=20)"
times = 1

[[rule]]
match = "dice"
reply = ["again", " and again"]

[[rule]]
match = "^break"
reply = "half"
then = "break"
status = 503

[[rule]]
reply = "whatever"
usage = false
"""


async def test_the_first_rule_that_matches_and_has_answers_left_gives_the_answer() -> None:
    async with ScriptedModelServer(read_script(SCRIPT)) as server:
        settings = LLMSettings(base_url=server.base_url, model="m", retries=0)
        model = HttpChatModel(settings)
        assert words_of(await listen(model, ask("roll the dice"))) == "roll_dice(sides=20)"
        assert words_of(await listen(model, ask("roll the dice"))) == "again and again"
        usage, end = (await listen(model, ask("hello")))[-2:]
        assert usage.estimated
        assert end == ReplyFinished("stop")
        with pytest.raises(ModelUnreachable, match="503"):
            await listen(model, ask("break it"))
        await model.aclose()


async def test_the_scripted_model_can_be_started_as_a_program(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "tests.peers.scripted_model", "--script", str(script)]
    root = Path(__file__).parents[2]
    async with await anyio.open_process(command, stdout=PIPE, cwd=root) as process:
        address = (await process.stdout.receive()).decode().strip()
        model = HttpChatModel(LLMSettings(base_url=address, model="m"))
        assert words_of(await listen(model, ask("hello"))) == "whatever"
        await model.aclose()
        process.terminate()
