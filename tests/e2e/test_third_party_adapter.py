"""An adapter is one folder: `nekro adapter new` writes it, and a bot runs with it unchanged.

Everything is in a temporary folder. No file of the checkout names the adapter.
"""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.cli.nekro import nekro_meanwhile
from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import ModelByChat, fence, model_settings, until
from tests.peers.scripted_model import ScriptedModelServer

LIMIT_S = 60.0
ROOT = Path(__file__).parents[2]


FAULTY = """
class Adapter:
    name = "broken"

    async def start(self):
        raise OSError("no address")

    async def aclose(self):
        raise OSError("never started")

def create(host, driver):
    return Adapter()
"""


class LineServer:
    """The test's chat server. It has one connection at a time."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.connections = 0
        self.port = 0
        self._stream: SocketStream | None = None
        self._writing = anyio.Lock()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["LineServer"]:
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            self.port = listener.extra(SocketAttribute.local_port)
            tasks.start_soon(listener.serve, self._serve)
            yield self
            tasks.cancel_scope.cancel()

    async def say(self, **line: Any) -> None:
        assert self._stream is not None
        async with self._writing:
            await self._stream.send(json.dumps(line).encode() + b"\n")

    async def person_says(self, text: str, *, number: int, to_bot: bool) -> None:
        await self.say(
            type="message", id=f"p{number}", kind="group", chat="lobby", user="10001",
            name="Lin", text=text, time=time.time(), to_bot=to_bot,
        )  # fmt: skip

    async def shows(self, *texts: str) -> None:
        await until(lambda: len(self.sent) >= len(texts), LIMIT_S)
        assert [line["text"] for line in self.sent] == [*texts]

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            self._stream = stream
            await self.say(type="hello", account="bot")
            self.connections += 1
            lines = BufferedByteReceiveStream(stream)
            while True:
                try:
                    line = json.loads(await lines.receive_until(b"\n", 65536))
                except (anyio.IncompleteRead, anyio.EndOfStream):
                    return
                self.sent.append(line)
                await self.say(type="sent", key=line["key"], id=f"b{len(self.sent)}")


async def test_a_bot_runs_with_a_new_adapter_without_any_other_change(tmp_path: Path) -> None:
    made = await nekro_meanwhile(tmp_path, "adapter", "new", "tcp_lines")
    assert made.status == 0, made.err
    script = ModelByChat()
    script.replies["tcp_lines-group_lobby"] = [
        fence('send_channel_message("good evening")'),
        fence('send_channel_message("and again")'),
    ]
    async with ScriptedModelServer(script) as model, LineServer().serving() as server:
        settings = model_settings(model) | {
            "NEKRO_PLATFORMS": '["tcp_lines"]',
            "TCP_LINES_ADDRESS": f"127.0.0.1:{server.port}",
        }
        async with running_bot(tmp_path, **settings) as bot:
            await until(lambda: server.connections == 1, LIMIT_S)
            await server.person_says("good evening, bot", number=1, to_bot=True)
            await server.shows("good evening")
            assert server.sent[0]["chat"] == "lobby"
            await server.person_says("not for you", number=2, to_bot=False)
            await server.person_says("one more", number=3, to_bot=True)
            await server.shows("good evening", "and again")
            assert "left out" not in bot.log
        (_, asked) = script.asked["tcp_lines-group_lobby"]
        prompt = str(asked.messages)
        assert "good evening, bot" in prompt, "the prompt must have the earlier message"
        assert "not for you" in prompt, (
            "the prompt must also have the message that was not for the bot"
        )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_package", "an adapter is left out: broken"),
        ("def create(host, driver): return 1 / 0", "the adapter broken is left out"),
        (FAULTY, "the adapter broken could not be started"),
    ],
)
async def test_one_broken_adapter_does_not_stop_the_bot(
    tmp_path: Path, code: str, words: str
) -> None:
    folder = tmp_path / "data" / "adapters" / "broken"
    folder.mkdir(parents=True)
    (folder / "adapter.toml").write_text("[broken]")
    (folder / "__init__.py").write_text(code)
    (tmp_path / "data" / "adapters" / "empty").mkdir()
    async with (
        ScriptedModelServer(ModelByChat()) as model,
        running_bot(
            tmp_path, **model_settings(model), NEKRO_PLATFORMS='["broken", "nowhere"]'
        ) as bot,
    ):
        await until(lambda: words in bot.log, LIMIT_S)
        assert "empty has no adapter.toml" in bot.log
        assert "NEKRO_PLATFORMS: no platform 'nowhere'; there are " in bot.log
        assert await bot.stop() < LIMIT_S
        assert bot.process.returncode == 0


def test_no_file_of_the_code_names_the_adapter() -> None:
    named = [
        path
        for folder in ("nekro_core", "adapters")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".toml", ".txt"} and "tcp_lines" in path.read_text()
    ]
    assert named == []
