"""A model that writes code, a model that calls functions, and an MCP client each solve three tasks.

All three use the same tools of one plugin. The first call of each task returns a secret. The script
does not know the secret and must pass it from the result of this call to the next call. The plugin
records what it returned and what it received.
"""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest

from tests.agent.native import unmarked
from tests.cli.mcp_server.clients import over_http
from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.whole_bot import LONG_S, fence
from tests.peers.scripted_model import Answer, Asked, Call, Reply, ScriptedModelServer

pytestmark = [pytest.mark.jail, pytest.mark.long]
PLUGIN = '''
"""A vault, a library and a torn map."""

import json
import secrets
from pathlib import Path

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin("Tasks", "tasks", "Three tasks.", "0.1.0", "test")
ACCOUNT = Path(ACCOUNT_FILE)


def note(_ctx: AgentCtx, event: str, value: str) -> str:
    with ACCOUNT.open("a") as file:
        file.write(json.dumps([_ctx.chat_key, event, value]) + "\\n")
    return value


def given(_ctx: AgentCtx, event: str) -> set[str]:
    """What this chat was given."""
    lines = map(json.loads, ACCOUNT.read_text().splitlines())
    return {value for chat, what, value in lines if (chat, what) == (_ctx.chat_key, event)}


def check(_ctx: AgentCtx, event: str, value: str) -> None:
    if value not in given(_ctx, event):
        raise ToolFailure(f"{value!r} is not right")


def tool(kind: str, name: str):
    return plugin.mount_sandbox_method(SandboxMethodType(kind), name, needs_chat=False)


@tool("tool", "look_into_drawer")
async def look_into_drawer(_ctx: AgentCtx, colour: str) -> dict[str, str]:
    """Look into a drawer; the code of the vault lies in it."""
    return {"colour": colour, "code": note(_ctx, "code", secrets.token_hex(8))}


@tool("tool", "open_vault")
async def open_vault(_ctx: AgentCtx, code: str) -> str:
    """Open the vault with its code."""
    check(_ctx, "code", code)
    return note(_ctx, "vault", f"gold {secrets.token_hex(4)}")


@tool("agent", "search_library")
async def search_library(_ctx: AgentCtx, title: str) -> str:
    """Find a book's shelf mark."""
    return f"{title} stands at mark {note(_ctx, 'mark', secrets.token_hex(8))}."


@tool("behavior", "lend_book")
async def lend_book(_ctx: AgentCtx, mark: str) -> str:
    """Lend the book with this shelf mark."""
    check(_ctx, "mark", mark)
    return note(_ctx, "book", f"due in {secrets.randbelow(90) + 10} days")


@tool("tool", "find_half")
async def find_half(_ctx: AgentCtx, side: str) -> str:
    """Find the left or the right half of the map."""
    return note(_ctx, side, f"{side}-{secrets.token_hex(8)}")


@tool("tool", "join_halves")
async def join_halves(_ctx: AgentCtx, left: str, right: str) -> str:
    """Join both halves of the map."""
    check(_ctx, "left", left)
    check(_ctx, "right", right)
    return note(_ctx, "map", f"island {secrets.token_hex(4)}")
'''
TASKS = {"vault": "gold ", "book": "due in ", "map": "island "}
"""Each task, and the beginning of its answer. The plugin notes the answer under the task's name."""

Results = list[str]


def next_calls(task: str, results: Results) -> list[Call]:
    """The next calls of a program or model that calls functions, given the results so far."""
    match task, results:
        case "vault", []:
            return [Call("look_into_drawer", {"colour": "red"})]
        case "vault", [drawer]:
            return [Call("open_vault", {"code": json.loads(drawer)["code"]})]
        case "book", []:
            return [Call("search_library", {"title": "Momo"})]
        case "book", [found]:
            return [Call("lend_book", {"mark": _mark(found)})]
        case "map", []:
            return [Call("find_half", {"side": side}) for side in ("left", "right")]
        case "map", [left, right]:
            return [Call("join_halves", {"left": left, "right": right})]
    return []


def next_code(task: str, prompt: str, first: bool) -> str:
    """The next calls as code. ``prompt`` is the last message to the model."""
    match task, first:
        case "vault", _:
            return (
                "found = look_into_drawer('red')\n"
                "send_channel_message(open_vault(code=found['code']))"
            )
        case "book", True:
            return "search_library('Momo')"
        case "book", False:
            return f"send_channel_message(lend_book({_mark(prompt)!r}))"
        case "map", True:
            return "print(find_half('left'), find_half('right'))"
    left, right = re.findall(r"(?:left|right)-[0-9a-f]{16}", prompt)
    return f"send_channel_message(join_halves({left!r}, right={right!r}))"


def _mark(text: str) -> str:
    return re.findall(r"at mark ([0-9a-f]{16})", text)[-1]


def script(asked: Asked) -> Reply:
    """The script of both models. If the request offers functions, the model calls them. Otherwise
    it writes code."""
    (task,) = set(re.findall(r"> solve the (\w+)", str(asked.messages)))
    if "tools" not in asked.body:
        first = all(message["role"] != "assistant" for message in asked.messages)
        return fence(next_code(task, asked.last_user_text, first))
    results = [unmarked(each) for each in asked.results]
    calls = next_calls(task, results)
    seed = len(asked.messages)
    return Answer(calls=calls, split="mixed", seed=seed) if calls else results[-1]


class Account:
    """The plugin's record of returned and received values, by chat."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, chat: str, event: str) -> list[str]:
        lines = map(json.loads, self._path.read_text().splitlines())
        return [value for key, what, value in lines if (key, what) == (chat, event)]


@pytest.fixture(scope="module")
async def account(tmp_path_factory: pytest.TempPathFactory) -> Account:
    path = tmp_path_factory.mktemp("account") / "account.jsonl"
    path.touch()
    return Account(path)


@pytest.fixture(scope="module")
async def model(anyio_backend: str) -> AsyncIterator[ScriptedModelServer]:
    async with ScriptedModelServer(script) as model:
        yield model


@pytest.fixture(scope="module")
async def bot(
    model: ScriptedModelServer, account: Account, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[BotProcess]:
    folder = tmp_path_factory.mktemp("tasks")
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "tasks.py").write_text(PLUGIN.replace("ACCOUNT_FILE", repr(str(account._path))))
    modes = {f"web-private_tools_{task}": "tools" for task in TASKS}
    settings = {
        "NEKRO_LLM__BASE_URL": model.base_url,
        "NEKRO_LLM__MODEL": "scripted",
        "NEKRO_AGENT__MODES": json.dumps(modes),
        "NEKRO_TRIGGER__DEBOUNCE_S": "0.05",
    }
    async with running_bot(folder, **settings) as bot:
        yield bot


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("mode", ["tools", "code"])
async def test_a_model_solves_the_task(
    bot: BotProcess, model: ScriptedModelServer, account: Account, mode: str, task: str
) -> None:
    speaker = f"{mode}_{task}"
    async with httpx.AsyncClient(
        base_url=f"{bot.address}/api/v1/rooms/private_{speaker}/",
        headers={"Authorization": f"Bearer {bot.token}"},
        trust_env=False,
        timeout=60,
    ) as web:
        await web.post("messages", json={"speaker": speaker, "text": f"solve the {task}"})
        said = await answer(web)
    assert said.startswith(TASKS[task])
    assert account.of(f"web-private_{speaker}", task) == [said]
    asked = [one for one in model.requests if f"private_{speaker}:" in str(one.messages)]
    assert {"tools" in one.body for one in asked} == {mode == "tools"}


async def test_an_mcp_client_solves_all_tasks(bot: BotProcess, account: Account) -> None:
    async with over_http(bot, "web-private_agent") as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        for task, beginning in TASKS.items():
            results: Results = []
            while calls := next_calls(task, results):
                assert {call.name for call in calls} <= listed
                for call in calls:
                    result = await client.call_tool(call.name, call.arguments)
                    assert not result.is_error, result
                    results.append(result.content[0].text)
            assert results[-1].startswith(beginning)
            assert account.of("web-private_agent", task) == [results[-1]]


async def test_an_invented_secret_is_refused(bot: BotProcess, account: Account) -> None:
    """This test shows that the checks above can fail."""
    async with httpx.AsyncClient(
        headers={"Authorization": f"Bearer {bot.token}"}, timeout=60
    ) as web:
        address = f"{bot.address}/api/v1/tools/open_vault"
        refused = (await web.post(address, json={"code": "0" * 16})).json()
    assert refused["isError"]
    assert "is not right" in refused["content"][0]["text"]
    assert not account.of("tools-private_outside", "vault")


async def answer(web: httpx.AsyncClient) -> str:
    """Wait for the bot's first message. Returns its text."""
    with anyio.fail_after(LONG_S):
        while True:
            for record in (await web.get("messages")).json()["messages"]:
                if record["author"] == "bot" and record["state"] == "sent":
                    return "".join(segment["text"] for segment in record["segments"])
            await anyio.sleep(0.05)
