"""Authors of published plugins have habits. A plugin of a few lines tests each of them."""

import keyword
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.plugins.authoring.plugin_key import author_key, module_key
from nekro_core.plugins.host.switches import read_list
from nekro_core.plugins.installation.inspection import inspect_plugin
from nekro_core.plugins.installation.report import state_text
from nekro_core.testing import Bot, PluginNotLoaded
from nekro_core.testing.clock import FakeClock
from nekro_core.tools.outcome import ToolFailure
from tests.compat.nekro_agent.conftest import visitor

HEADER = """
from nekro_agent.api.plugin import ConfigBase, NekroPlugin, SandboxMethodType, TaskCtl, task
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.core.logger import logger

plugin = NekroPlugin("Habits", {module!r}, "Odd habits.", "0.1.0", {author!r}, "")
seen = []
"""
OpenPlugin = Callable[..., AbstractAsyncContextManager[Bot]]


@pytest.fixture
def bot_of(tmp_path: Path) -> OpenPlugin:
    """A function that opens a whole bot with a plugin of this source."""

    @asynccontextmanager
    async def open_bot(
        source: str, author: str = "ann", module: str = "habits"
    ) -> AsyncIterator[Bot]:
        path = tmp_path / "habits.py"
        path.write_text(HEADER.format(author=author, module=module) + source, encoding="utf-8")
        # The bot's clock starts at the machine's time, because plugins compare these times.
        clock = FakeClock(datetime.now().astimezone())
        async with Bot.open(tmp_path / "data", path, clock=clock) as bot:
            yield bot

    return open_bot


# -- authors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "author", ["Momo-chan", "开发者名称", "Nekro Gopher", "../..", "", "9 lives"]
)
async def test_a_plugin_of_any_author_has_files_settings_and_a_page(
    bot_of: OpenPlugin, author: str, tmp_path: Path
) -> None:
    source = """
@plugin.mount_config()
class Settings(ConfigBase):
    TEA: str = "green"


@plugin.mount_router()
def router():
    from fastapi import APIRouter

    pages = APIRouter()

    @pages.get("/tea")
    async def tea():
        return plugin.config.TEA

    return pages


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "keep", "Keeps a text.")
async def keep(_ctx: AgentCtx, text: str) -> str:
    await plugin.store.set(store_key="text", value=text)
    (plugin.get_plugin_data_dir() / "text.txt").write_text(text)
    return await plugin.store.get(store_key="text")
"""
    async with bot_of(source, author=author) as bot:
        info = bot.info
        assert info.author == author
        assert info.key == f"{author_key(author)}.habits"
        assert await bot.call("keep", "tea") == "tea"
        assert info.addresses == (f"/plugins/{info.key}/",)
        (listed,) = [
            each for each in read_list(bot.app.host.data_dir) if each.item == "local/habits"
        ]
        (line, *_) = state_text(listed)
        assert author in line
        assert info.key in line
        folder = bot.app.host.data_dir / "plugin_data" / info.key
        assert {path.name for path in folder.iterdir()} == {"config.yaml", "text.txt"}
    if author:
        assert inspect_plugin(tmp_path / "habits.py").key == info.key


async def test_a_module_name_need_not_be_a_python_identifier(
    bot_of: OpenPlugin, tmp_path: Path
) -> None:
    source = """
@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "news", "Tells the news.")
async def news(_ctx: AgentCtx) -> list:
    from nekro_agent.services.plugin.collector import plugin_collector

    found = plugin_collector.get_plugin(f"{plugin.author}.{plugin.module_name}")
    return [plugin.module_name, found.key]
"""
    async with bot_of(source, author="Ann-Lee 2", module="nekro-plugin-news") as bot:
        key = f"{author_key('Ann-Lee 2')}.nekro_plugin_news"
        assert bot.info.key == key
        assert await bot.call("nekro_plugin_news.news") == ["nekro-plugin-news", key]
    assert inspect_plugin(tmp_path / "habits.py").key == key


@pytest.mark.parametrize("name", ["天气", "天气预报", "2048", "class", "", "a b.c-d", "x/y", "tea"])
def test_each_module_name_gives_a_key_that_is_a_python_identifier(name: str) -> None:
    key = module_key(name)
    assert key.isidentifier()
    assert key.isascii()
    assert not keyword.iskeyword(key)
    assert len(key) <= 64


def test_two_authors_never_get_the_same_key() -> None:
    folded = author_key("Nekro Gopher")
    authors = [
        *("Nekro Gopher", "Nekro_Gopher", "Nekro-Gopher", "Nekro  Gopher", "nekro gopher", " "),
        *(
            "",
            "_",
            "-",
            ".",
            "..",
            "a/b",
            "a\\b",
            "a.b",
            "开发者",
            "开发者名称",
            "A" * 64,
            "A" * 65,
        ),
        *("A" * 66, "\ud800", "é", "e\u0301", "a\n", folded, author_key(folded), "author", "-x"),
    ]
    keys = [author_key(author) for author in authors]
    assert len({*keys}) == len(keys)
    for key in keys:
        assert len(key) <= 64
        assert key.isascii()
        assert key.replace("_", "").replace("-", "").isalnum() or key == "_"
        assert not key.startswith("-")
    assert author_key("Momo-chan") == "Momo-chan"
    assert folded.startswith("Nekro_Gopher-")
    assert author_key("开发者名称").startswith("author-")


# -- errors --------------------------------------------------------------------------------

RAISING = '''
import helper_of_habits  # noqa


class NotFound(Exception):
    pass


tokens = {}


def lookup(name):
    if name not in tokens:
        raise NotFound(f"没有找到 {name}")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "fail", "Fails.")
async def fail(_ctx: AgentCtx, how: str) -> str:
    """Fail in one of several ways."""
    if how == "raise":
        raise ValueError("only in groups")
    if how == "function":
        lookup("tea")
    if how == "assert":
        assert how == "tea", "tea is out"
    if how == "from":
        try:
            tokens["sk-secret"]
        except KeyError as error:
            raise RuntimeError("no such token") from error
    if how == "key":
        return tokens["sk-secret"]
    if how == "value":
        return int("sk-secret")
    if how == "again":
        try:
            return tokens["sk-secret"]
        except KeyError:
            raise
    if how == "same":
        try:
            return tokens["sk-secret"]
        except KeyError as error:
            raise error
    if how == "library":
        helper_of_habits.connect("sk-secret")
    if how == "library again":
        try:
            helper_of_habits.connect("sk-secret")
        except OSError as error:
            raise error from None
    if how == "code":
        exec("raise ValueError('sk-secret')")
    return "well"
'''
HELPER = "def connect(key):\n    raise OSError('cannot connect with ' + key)\n"


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("raise", "fail failed with ValueError: only in groups"),
        ("function", "fail failed with NotFound: 没有找到 tea"),
        ("assert", "fail failed with AssertionError: tea is out"),
        ("from", "fail failed with RuntimeError: no such token"),
    ],
)
async def test_the_model_reads_the_text_of_an_error_that_the_plugin_itself_raises(
    bot_of: OpenPlugin, how: str, told: str, library: None
) -> None:
    async with bot_of(RAISING) as bot:
        with pytest.raises(ToolFailure) as failed:
            await bot.call("fail", how)
        assert str(failed.value) == told


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ("key", "KeyError"),
        ("value", "ValueError"),
        ("again", "KeyError"),
        ("same", "KeyError"),
        ("library", "OSError"),
        ("library again", "OSError"),
        ("code", "ValueError"),
    ],
)
async def test_the_model_does_not_read_the_text_of_an_error_from_a_library_or_a_bug(
    bot_of: OpenPlugin, how: str, kind: str, library: None
) -> None:
    async with bot_of(RAISING) as bot:
        with pytest.raises(ToolFailure) as failed:
            await bot.call("fail", how)
        assert str(failed.value) == (
            f"fail failed with {kind}; the operator finds the details in the log"
        )


async def test_a_plugin_for_nekro_core_shows_the_model_only_the_texts_of_tool_failures(
    tmp_path: Path,
) -> None:
    path = tmp_path / "strict.py"
    path.write_text(
        "from nekro_core.api.plugin import NekroPlugin, SandboxMethodType\n"
        "from nekro_core.api.schemas import AgentCtx\n"
        'plugin = NekroPlugin("Strict", "strict", "Strict.", "0.1.0", "ann")\n'
        '@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "fail", "Fails.")\n'
        "async def fail(_ctx: AgentCtx) -> str:\n"
        '    raise ValueError("only in groups")\n'
    )
    async with Bot.open(tmp_path / "data", path) as bot:
        with pytest.raises(ToolFailure, match="fail failed with ValueError; the operator"):
            await bot.call("fail")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is not part of the plugin."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "helper_of_habits.py").write_text(HELPER)
    monkeypatch.syspath_prepend(folder)


# -- the plugin object ---------------------------------------------------------------------


async def test_a_plugin_reads_and_sets_its_configuration_as_an_attribute(
    bot_of: OpenPlugin,
) -> None:
    source = """
@plugin.mount_config()
class Settings(ConfigBase):
    TEA: str = "green"


plugin.config = plugin.get_config(Settings)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "tea", "Tells and changes the tea.")
async def tea(_ctx: AgentCtx, other: str = "") -> str:
    if other:
        plugin.config = Settings(TEA=other)
    return plugin.config.TEA
"""
    async with bot_of(source) as bot:
        assert await bot.call("tea") == "green"
        assert await bot.call("tea", "black") == "black"
        assert bot.plugin.get_config().TEA == "black"


async def test_init_and_enabled_hooks_get_a_context_if_they_take_one(bot_of: OpenPlugin) -> None:
    source = """
@plugin.mount_init_method()
async def init(ctx: AgentCtx):
    seen.append(("init", type(ctx).__name__, ctx.services is not None))
    made = await AgentCtx.create_by_chat_key("onebot_v11-group_1")
    seen.append(made.chat_key)


@plugin.on_enabled()
async def enabled(*_args, **_kwargs):
    seen.append(("enabled", _args))


@plugin.on_disabled()
def disabled(_ctx):
    print("disabled", type(_ctx).__name__)


@plugin.mount_cleanup_method()
async def cleanup(_ctx, reason="end"):
    print("cleanup", type(_ctx).__name__, reason)
"""
    async with bot_of(source) as bot:
        assert bot.module.seen == [
            ("init", "LegacyAgentCtx", True),
            "onebot_v11-group_1",
            ("enabled", ()),
        ]


async def test_disabled_and_cleanup_hooks_get_a_context_if_they_take_one(
    bot_of: OpenPlugin, capfd: pytest.CaptureFixture[str]
) -> None:
    source = """
@plugin.on_disabled()
def disabled(_ctx):
    print("disabled", type(_ctx).__name__)


@plugin.mount_cleanup_method()
async def cleanup(_ctx, reason="end"):
    print("cleanup", type(_ctx).__name__, reason)
"""
    async with bot_of(source):
        pass
    out = capfd.readouterr().out
    assert "disabled LegacyAgentCtx" in out
    assert "cleanup LegacyAgentCtx end" in out


async def test_a_hook_with_more_parameters_than_the_context_is_refused_at_load(
    bot_of: OpenPlugin,
) -> None:
    source = """
@plugin.mount_init_method()
async def init(ctx, reason):
    pass
"""
    with pytest.raises(
        PluginNotLoaded, match=r"the init method has the parameters \(ctx, reason\)"
    ):
        async with bot_of(source):
            pass


async def test_stop_all_may_be_awaited_although_it_is_not_async(bot_of: OpenPlugin) -> None:
    source = """
import asyncio


@plugin.mount_async_task("wait")
async def wait(handle):
    yield TaskCtl.report_progress("waiting")
    await asyncio.sleep(60)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "stop", "Starts two tasks and stops them.")
async def stop(_ctx: AgentCtx) -> list:
    for name in ("one", "two"):
        await task.start("wait", name, _ctx.chat_key, plugin)
    counted = task.stop_all() + 0
    while task.get_running_tasks():
        await asyncio.sleep(0.01)
    return [counted, await task.stop_all()]
"""
    async with bot_of(source) as bot:
        assert await bot.call("stop") == [2, 0]


# -- database rows and timers ----------------------------------------------------------------


async def test_the_conversation_start_of_a_chat_that_was_never_reset_is_recent_and_does_not_change(
    bot_of: OpenPlugin,
) -> None:
    source = """
from nekro_agent.models.db_chat_channel import DBChatChannel


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "began", "Tells when the chat began.")
async def began(_ctx: AgentCtx) -> list:
    channel = _ctx.db_chat_channel
    again = await DBChatChannel.get_channel(_ctx.chat_key)
    never = await DBChatChannel.get_channel("onebot_v11-group_404")
    times = [each.conversation_start_time for each in (channel, again, never)]
    return [each.timestamp() for each in (*times, channel.create_time)]
"""
    async with bot_of(source) as bot:
        before = time.time() - 60
        first = await bot.call("began")
        assert all(before < each <= time.time() + 1 for each in first)
        assert await bot.call("began") == first


TIMERS = """
import asyncio
import time

from nekro_agent.services.timer.timer_service import timer_service

jobs = {}


async def push(key):
    seen.append(("pushed", key))


@plugin.mount_init_method()
async def init():
    ok = await timer_service.set_timer(
        chat_key="habits_keepalive",
        trigger_time=int(time.time()),
        event_desc="keep alive",
        temporary=True,
        silent=True,
        callback=lambda: push("keepalive"),
    )
    assert ok


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "plan", "Plans a push.")
async def plan(_ctx: AgentCtx, seconds: float, note: str) -> list:
    key = _ctx.chat_key

    async def callback():
        ctx = await AgentCtx.create_by_chat_key(key)
        await ctx.ms.send_text(key, f"news: {note}", ctx, record=False)
        await push(note)

    ok = await timer_service.set_timer(
        chat_key=key,
        trigger_time=int(time.time()) + seconds,
        event_desc=note,
        silent=True,
        callback=callback,
    )
    timer = timer_service.get_timers(key)[-1]
    jobs[note] = timer.task_id
    return [ok, timer.event_desc, len(await timer_service.get_timers(key))]


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "drop", "Deletes a timer.")
async def drop(_ctx: AgentCtx, note: str) -> list:
    gone = await timer_service.delete_timer_by_id(jobs[note])
    again = await timer_service.delete_timer_by_id(jobs[note])
    return [gone, again, [each.event_desc for each in timer_service.get_timers(_ctx.chat_key)]]


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "remind", "Sets a timer that is stored.")
async def remind(_ctx: AgentCtx, note: str) -> str:
    await timer_service.set_timer(_ctx.chat_key, int(time.time()) + 5000, note)
    jobs[note] = timer_service.get_timers(_ctx.chat_key)[-1].task_id
    return note
"""


async def test_timers_call_functions_and_are_deleted_by_their_ids(bot_of: OpenPlugin) -> None:
    async with bot_of(TIMERS) as bot:
        seen: list[Any] = bot.module.seen
        with anyio.fail_after(30):
            while ("pushed", "keepalive") not in seen:
                await anyio.sleep(0.01)
        assert await bot.call("remind", "stored") == "stored"
        assert await bot.call("plan", 3000, "later") == [True, "later", 2]
        assert await bot.call("plan", 2000, "sooner") == [True, "sooner", 3]
        assert await bot.call("drop", "later") == [True, False, ["stored", "sooner"]]
        assert await bot.call("drop", "stored") == [True, False, ["sooner"]]
        await bot.call("plan", 0, "at once")
        with anyio.fail_after(10):
            while ("pushed", "at once") not in seen:
                await anyio.sleep(0.01)
        assert ("pushed", "later") not in seen
        assert bot.chat().texts == ["news: at once"]
        await bot.reload()
        assert await bot.call("plan", 3000, "new") == [True, "new", 1], (
            "the timers of the old plugin must end with it"
        )


# -- configurations ------------------------------------------------------------------------


async def test_a_setting_without_a_default_is_empty_and_a_problem_until_the_operator_sets_it(
    bot_of: OpenPlugin,
) -> None:
    source = """
from typing import Literal, Optional
from pydantic import Field, SecretStr


@plugin.mount_config()
class Settings(ConfigBase):
    API_TOKEN: str = Field(..., title="Token")
    SECRET: SecretStr
    LIMIT: int = Field(...)
    GROUPS: list[str] = Field(...)
    OTHER: Optional[str]
    SIZE: int = 3


config = plugin.get_config(Settings)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "settings", "Tells the settings.")
async def settings(_ctx: AgentCtx) -> list:
    return [config.API_TOKEN, config.LIMIT, config.GROUPS, config.OTHER, config.SIZE]
"""
    async with bot_of(source) as bot:
        assert await bot.call("settings") == ["", 0, [], None, 3]
        told = [str(each) for each in bot.info.problems]
        assert any("no value for API_TOKEN" in each and "config.yaml:1" in each for each in told)
        assert not any("no value for SIZE" in each for each in told)
        path = bot.plugin.get_plugin_data_dir() / "config.yaml"
        path.write_text(path.read_text().replace("API_TOKEN: ''", "API_TOKEN: t"))
        await bot.reload()
        assert (await bot.call("settings"))[0] == "t"
        assert not any("API_TOKEN" in str(each) for each in bot.info.problems)


async def test_a_setting_that_accepts_no_empty_value_must_be_set(bot_of: OpenPlugin) -> None:
    source = """
from typing import Literal


@plugin.mount_config()
class Settings(ConfigBase):
    KIND: Literal["a", "b"]
"""
    with pytest.raises(PluginNotLoaded, match="KIND: Field required"):
        async with bot_of(source):
            pass


# -- pages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("also", ['@routes.get("/", response_class=HTMLResponse)', ""])
async def test_a_page_may_have_an_empty_path(bot_of: OpenPlugin, also: str) -> None:
    source = f"""
from fastapi import APIRouter, WebSocket
from fastapi.responses import HTMLResponse

routes = APIRouter(prefix="", tags=["web"])


{also}
@routes.get("", response_class=HTMLResponse)
async def index():
    return "<h1>tea</h1>"


@routes.post("", status_code=201)
async def add(value: dict):
    return value


@routes.websocket("")
async def talk(socket: WebSocket):
    await socket.accept()


@plugin.mount_router()
def router():
    return routes
"""
    async with bot_of(source) as bot, visitor(bot.app.operator.pages) as visits:
        assert bot.info.problems == ()
        for path in ("/ann.habits/", "/ann.habits"):
            page = await visits.get(path)
            assert (page.status_code, page.text) == (200, "<h1>tea</h1>")
        added = await visits.post("/ann.habits/", json={"tea": 1})
        assert (added.status_code, added.json()) == (201, {"tea": 1})
