"""The code printed in `docs/reactive.md` runs."""

import re
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from nekro_core.api import reactive
from nekro_core.api.reactive import Resources, scope
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.llm.model import ChatRequest, FunctionCall
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.tools.outcome import ToolCallFailed, ToolReturn
from tests.peers.listening import LoopbackServer, read_request
from tests.plugins.world import GROUP, World
from tests.reactive.conftest import Source

pytestmark = pytest.mark.jail

PAGE = (Path(__file__).parents[2] / "docs" / "reactive.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PLUGIN, *SNIPPETS = BLOCKS


def scripted(request: ChatRequest) -> ScriptedAnswer:
    """Calls a tool first, and then answers with the number that the tool returned."""
    answers = [message for message in request.messages if message.role == "tool"]
    if not answers:
        look = {"command": "seq 3 > /tmp/p; wc -l < /tmp/p"}
        return ScriptedAnswer(calls=(FunctionCall(call_id="1", name="shell", arguments=look),))
    seen = re.search(r'"stdout":"(\d+)', answers[0].parts[0].text)
    assert seen is not None
    return ScriptedAnswer(chunks=[f"There are {seen[1]}."])


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
async def test_every_snippet_of_the_guide_runs(number: int, resources: Resources) -> None:
    body = textwrap.indent(SNIPPETS[number], "    ")
    names: dict[str, Any] = {name: getattr(reactive, name) for name in reactive.__all__}
    exec(f"async def snippet():\n{body}", names)
    async with scope(replace(resources, model=ScriptedModel(scripted))):
        await names["snippet"]()


class Story(LoopbackServer):
    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        path = (await read_request(reader)).path
        status = "200 OK" if path == "/story" else "404 Not Found"
        await stream.send(f"HTTP/1.1 {status}\r\nContent-Length: 7\r\n\r\nan  owl".encode())
        return True


async def test_the_plugin_posts_one_message_that_changes(
    tmp_path: Path, source: Source, fetcher: Fetcher
) -> None:
    world = World(tmp_path)
    world.services = replace(world.services, boxes=source, fetcher=fetcher)
    world.write("word_count.py", PLUGIN)
    async with Story() as server, world.bot() as registry:
        (info,) = registry.plugins()
        assert info.problems == ()
        tool = registry.tools_for(GROUP).resolve("count_words")
        assert tool is not None
        address = server.base_url.removesuffix("/v1")
        assert await call_tool(tool, world.ctx(), (f"{address}/story",)) == ToolReturn(None)
        assert world.outgoing.texts == ["counting ..."]
        assert world.editor.texts == ["2 words"]
        world.editor.every_s = None
        await call_tool(tool, world.ctx(), (f"{address}/story",))
        assert world.outgoing.texts == ["counting ...", "2 words"]
        failed = await call_tool(tool, world.ctx(), (f"{address}/gone",))
        assert isinstance(failed, ToolCallFailed)
        assert "the server answered 404" in failed.message
