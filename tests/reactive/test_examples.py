"""The five programs under `examples/` run with real boxes and a server on loopback."""

import io
import tarfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from examples import basic_runner
from examples.basic_runner import runner
from examples.compiler import compiler
from examples.csv_pipeline import pipeline
from examples.repl import Shell
from examples.repository import Summary, repository
from nekro_core.api.reactive import Resources, cell, scope, settled
from tests.peers.listening import LoopbackServer, read_request
from tests.plugins.world import World
from tests.reactive.conftest import Source

pytestmark = pytest.mark.jail


class Server(LoopbackServer):
    """Serves the bytes in ``pages`` by their path."""

    def __init__(self, pages: dict[str, bytes]) -> None:
        super().__init__()
        self.pages = pages

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        body = self.pages.get((await read_request(reader)).path)
        status = "200 OK" if body is not None else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body or b'')}\r\n\r\n"
        await stream.send(head.encode() + (body or b""))
        return True

    @property
    def address(self) -> str:
        return self.base_url.removesuffix("/v1")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server({}) as serving:
        yield serving


async def test_the_basic_runner_runs(resources: Resources) -> None:
    code = cell("")
    async with scope(resources):
        run = runner(code)
        assert not run.pending
        for source, printed in (
            ("print(6 * 7)", "42\n"),
            ("print('''it's \"quoted\" $(id) `id`''')", 'it\'s "quoted" $(id) `id`\n'),
        ):
            code.set(source)
            assert (await run.settled()).result.stdout == printed
        code.set("raise SystemExit(3)")
        assert (await run.settled()).result.exit_code == 3


async def test_the_basic_runner_edits_its_message_in_a_chat(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    ctx = world.ctx()
    ctx = replace(ctx, services=replace(ctx.services, boxes=source))
    assert await basic_runner.run_python(ctx, "print('hi')") == 0
    assert (world.outgoing.texts, world.editor.texts) == (["running ..."], ["hi\n"])


async def test_the_compiler_example_runs(resources: Resources) -> None:
    source = cell("def greet(name):\n    return f'hello {name}'\n")
    async with scope(resources):
        made = compiler(source)
        await settled()
        assert made.names() == ["def", "greet", "name", "return"]
        assert made.bytecode()[2:4] == b"\r\n", (
            "the magic number of every Python version ends with these bytes"
        )
        assert made.complaint() == ""
        source.set("EOF\nSRC\n'\"'\"' def broken(:")
        assert (made.names(), made.bytecode()) == ([], b"")
        await settled()
        assert "SyntaxError" in made.complaint()
        assert made.names() == []


async def test_the_repository_example_runs(resources: Resources, server: Server) -> None:
    def archive(**files: str) -> bytes:
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, text in files.items():
                entry = tarfile.TarInfo(f"{name}.py")
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text.encode()))
        return packed.getvalue()

    server.pages = {
        "/repos/lin/dice": b'{"name": "dice", "stars": 12}',
        "/repos/lin/dice/archive.tar": archive(a="1\n2\n", b="3\n"),
        "/repos/lin/cards": b'{"name": "cards", "stars": 1}',
    }
    name = cell("lin/dice")
    async with scope(resources):
        summary = repository(server.address, name)
        seen = [glimpse.value async for glimpse in summary.follow()]
        assert seen[0] == Summary()
        assert seen[-1] == Summary(name="dice", stars=12, lines=3)
        name.set("lin/cards")
        assert summary() == Summary()
        await settled()
        assert summary() == Summary(name="cards", stars=1, lines=None)


async def test_the_repl_example_runs(resources: Resources, source: Source) -> None:
    image = cell("python")
    async with scope(resources):
        shell = Shell(image)
        assert (await shell.run("echo 'x = 41' > m.py; cd /tmp")).ok
        result = await shell.run("python3 -c 'import m; print(m.x + 1)'; exit 3")
        assert (result.stdout, result.exit_code) == ("42\n", 3)
        assert [entry.exit_code for entry in shell.history()] == [0, 3]
        with pytest.raises(ValueError, match="no command"):
            await shell.run("")
        image.set("other")
        assert (await shell.run("ls")).stdout == ""
        assert len(shell.history()) == 3
    assert shell.box.status == "destroyed"
    assert source.asked_for == ["python", "other"]


async def test_the_csv_pipeline_example_runs(resources: Resources, server: Server) -> None:
    server.pages = {
        "/good.csv": b"city,n\nOslo,1\nOslo,2\n<b>\"'''$(id),3\n",
        "/empty.csv": b"city,n\n",
    }
    url = cell("")
    async with scope(resources):
        made = pipeline(url)
        assert not any(stage.pending for stage in (made.csv, made.analysis, made.chart))
        url.set(f"{server.address}/good.csv")
        svg = (await made.chart.settled()).result.files["chart.svg"]
        assert "Oslo: 2</text>" in svg
        assert "&lt;b&gt;&quot;&#x27;&#x27;&#x27;$(id): 1</text>" in svg
        assert made.analysis.result.files["stats.json"]["columns"] == ["city", "n"]
        url.set(f"{server.address}/empty.csv")
        assert made.chart.result is None
        await settled()
        assert made.analysis.result.exit_code == 3
        assert (made.chart.result, made.chart.error) == (None, None), (
            "after a failed stage the later stages have no result"
        )
        url.set(f"{server.address}/gone.csv")
        await settled()
        assert "404" in str(made.csv.error)
        assert made.analysis.result is None
