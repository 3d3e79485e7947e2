"""An operator sees what the bot stores about a chat, and erases a person."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, File, Text
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.errors import NotAllowed
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.policy.settings import TriggerSettings
from nekro_core.testing.platform import ACCOUNT, NAME, TestPlatform
from tests.delivery.fakes import message

pytestmark = pytest.mark.jail

USER = "4044044"
LIN = ChatKey.parse(f"{NAME}-private_{USER}")
GROUP = ChatKey.parse(f"{NAME}-group_1")
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    settings = Settings(
        nekro_data_dir=tmp_path, nekro_trigger=TriggerSettings(debounce_s=0), _env_file=None
    )  # type: ignore[call-arg]
    platform = TestPlatform()
    reply = "```python\nopen('a.txt', 'w').write('x' * 1000)\nsend_channel_message('hi')\n```"
    async with App.open(settings, {}, model=ScriptedModel(lambda _: reply)) as running:
        running.add_adapter(platform)
        await running.host.instance_of(NAME, ACCOUNT)
        await running.start()
        medium = await running.operator.media.keep_bytes(LIN, b"x" * 100, name="a.txt")
        for number, segments in enumerate(((Text("hello"),), (Text("mine"), File(medium)))):
            said = message(
                LIN, user=USER, segments=segments, message_id=f"m{number}", time=time.time()
            )
            await running.host.accept(said)
            with anyio.fail_after(60):
                await platform.until(lambda number=number: len(platform.sent) > number)
        await running.host.accept(message(GROUP, "words", user="mei", message_id="g", time=1e9))
        yield running


async def test_the_data_that_the_bot_stores_about_a_chat_are_counted(app: App) -> None:
    with anyio.fail_after(30):
        while (kept := await app.operations.erasure.kept(VERA, chat_key=LIN)).rows.turns < 2:
            await anyio.sleep(0.05)
    assert kept.rows.messages == 4, "two of the person and two of the bot"
    assert abs(kept.rows.since - time.time()) < 60
    assert (kept.media, kept.media_bytes) == (1, 100)
    assert (kept.boxes, kept.timers, kept.rows.plugin_values) == (1, 0, 0)
    await app.operations.timers.set_once(OTTO, chat_key=LIN, due=time.time() + 3600, text="tea")
    await app.operations.boxes.sleep(OTTO, chat_key=LIN)
    kept = await app.operations.erasure.kept(VERA, chat_key=LIN)
    assert kept.timers == 1
    assert kept.box_bytes > 0
    nothing = await app.operations.erasure.kept(VERA, chat_key=ChatKey.parse(f"{NAME}-group_9"))
    assert (nothing.rows.messages, nothing.rows.since, nothing.media) == (0, 0.0, 0)


async def test_an_operator_erases_a_person(app: App) -> None:
    erasure, chats = app.operations.erasure, app.operations.chats
    plan = await erasure.person(OTTO, chat_key=LIN, user_id=USER)
    assert (plan.messages, plan.private_chats, plan.files, plan.boxes) == (2, 1, 1, 1)
    with pytest.raises(NotAllowed):
        await erasure.erase_person.invoke(VERA, {"chat_key": str(LIN), "user_id": USER})
    assert (await chats.one(VERA, chat_key=LIN)).newest_text == "hi"
    done = await erasure.erase_person.invoke(OTTO, {"chat_key": str(LIN), "user_id": USER})
    assert (done.result.messages, done.undoable) == (2, False)
    assert [each.chat_key for each in (await chats.newest(VERA)).chats] == [GROUP]
    kept = await erasure.kept(VERA, chat_key=LIN)
    assert (kept.rows.messages, kept.rows.turns, kept.media, kept.boxes) == (0, 0, 0, 0)
    (entry,) = await app.operations.audit.newest(OTTO, area="erasure", limit=1)
    assert (entry.action, entry.actor, entry.outcome) == ("erasure.erase_person", "otto", "done")
    assert USER not in str(entry)
