"""An operator chooses which tools the agent of a chat has."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.model import ChatRequest, FunctionCall
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel, ScriptedReply
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NotAllowed
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.policy.settings import TriggerSettings
from nekro_core.testing.platform import ACCOUNT, NAME, TestPlatform
from nekro_core.tools.outcome import ToolCallFailed
from tests.delivery.fakes import message

pytestmark = pytest.mark.jail

LIN = ChatKey.parse(f"{NAME}-private_lin")
ANN = ChatKey.parse(f"{NAME}-private_ann")
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)
DICE = "nekro.dice:roll_dice"
CODE = (
    "```python\ntry:\n    roll_dice(6)\nexcept Exception as e:\n    print(type(e).__name__, e)\n```"
)


class Talk:
    """A bot with one platform, whose model rolls dice when it is asked to."""

    def __init__(self, app: App, platform: TestPlatform, model: ScriptedModel) -> None:
        self.app, self.platform, self.model = app, platform, model

    async def ask(self, text: str, chat: ChatKey = LIN) -> list[str]:
        """Ask, wait until the turn has ended, and return what the bot sent in this time."""
        before = len(self.platform.sent)
        said = message(chat, text, message_id=f"m{time.monotonic_ns()}", time=time.time())
        await self.app.host.accept(said)
        turns = self.app.operations.turns
        with anyio.fail_after(60):
            while not (found := await turns.list(VERA, chat_key=chat)) or (
                found[0].asked != text or found[0].running
            ):
                await anyio.sleep(0.02)
        return [each.text for each in self.platform.sent[before:]]


def model_reply(request: ChatRequest) -> ScriptedReply:
    asked = "natively" if request.functions else "code"
    told = str(request.messages[-1])
    if "roll" in told and "switched off" not in told and "NameError" not in told:
        if asked == "code":
            return CODE
        return ScriptedAnswer(
            calls=[FunctionCall(call_id="1", name="roll_dice", arguments={"sides": 6})]
        )
    return "done"


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    settings = Settings(
        nekro_data_dir=tmp_path, nekro_trigger=TriggerSettings(debounce_s=0), _env_file=None
    )  # type: ignore[call-arg]
    platform, model = TestPlatform(), ScriptedModel(model_reply)
    async with App.open(settings, {}, model=model) as app:
        app.add_adapter(platform)
        await app.host.instance_of(NAME, ACCOUNT)
        await app.start()
        yield Talk(app, platform, model)


async def test_code_cannot_see_or_call_a_tool_that_is_off(talk: Talk) -> None:
    chats = talk.app.operations.chats
    assert await talk.ask("roll one")
    assert "roll_dice" in str(talk.model.requests[0].messages[0])
    await chats.switch_tool(OTTO, chat_key=LIN, name=DICE, on=False)
    before = len(talk.model.requests)
    sent = await talk.ask("roll two")
    first = talk.model.requests[before]
    assert "roll_dice" not in str(first.messages[0])
    runs = (await talk.app.operations.turns.one(VERA, turn_id=2)).runs
    assert "NameError" in runs[0].output
    assert runs[0].calls == []
    assert sent == ["done"]
    await talk.ask("roll three", ANN)  # in another chat the tool is still on
    assert "roll_dice" in str(talk.model.requests[-1].messages[0])


async def test_a_native_call_of_a_tool_that_is_off_is_refused(talk: Talk) -> None:
    chats = talk.app.operations.chats
    await chats.set_policy(OTTO, chat_key=LIN, field="mode", value="tools")
    await chats.switch_tool(OTTO, chat_key=LIN, name="nekro.dice", on=False)
    await talk.ask("roll one")
    assert "roll_dice" not in {each.name for each in talk.model.requests[0].functions}
    (call,) = (await talk.app.operations.turns.one(VERA, turn_id=1)).runs[0].calls
    assert call.outcome == "roll_dice is switched off in this chat"


async def test_a_call_of_a_tool_that_was_switched_off_during_the_turn_is_refused(
    talk: Talk,
) -> None:
    plugins = talk.app.runtime.services.plugins
    ctx = plugins.context_for(LIN)
    tool = (await plugins.tools_in(ctx)).resolve("roll_dice")
    assert tool is not None
    await talk.app.operations.chats.switch_tool(OTTO, chat_key=LIN, name="*", on=False)
    outcome = await call_tool(tool, ctx, [6])
    assert outcome == ToolCallFailed("roll_dice is switched off in this chat")
    assert talk.platform.sent == []


async def test_tools_of_a_chat_are_listed_and_switched_and_a_change_is_undone(talk: Talk) -> None:
    chats, audit = talk.app.operations.chats, talk.app.operations.audit

    async def on() -> set[str]:
        return {each.plugin for each in await chats.tools(VERA, chat_key=LIN) if each.on}

    everything = await on()
    assert {"nekro.dice", "nekro.chat"} <= everything
    done = await chats.switch_tool(OTTO, chat_key=LIN, name="nekro.dice", on=False)
    assert done.result.own == {"tools": {"nekro.dice": "off"}}
    assert await on() == everything - {"nekro.dice"}
    await audit.undo(OTTO, entry_id=done.entry_id)
    assert (await chats.policy(VERA, chat_key=LIN)).own == {}
    await chats.switch_tool(OTTO, chat_key=LIN, name=DICE, on=False)
    await chats.switch_tool(OTTO, chat_key=LIN, name="*", on=False)
    last = await chats.switch_tool(OTTO, chat_key=LIN, name="nekro.chat", on=True)
    assert last.result.own == {"tools": {"*": "off", "nekro.chat": "on"}}
    assert await on() == {"nekro.chat"}
    done = await chats.switch_tool(OTTO, chat_key=LIN, name="*", on=True)
    assert done.result.own == {}
    assert await on() == everything


async def test_impossible_changes_of_the_tools_of_a_chat_are_refused(talk: Talk) -> None:
    chats = talk.app.operations.chats
    with pytest.raises(InvalidParameters, match="expected a plugin such as nekro"):
        await chats.switch_tool(OTTO, chat_key=LIN, name="a b", on=False)
    with pytest.raises(InvalidParameters, match="'on' or 'off'"):
        await chats.set_policy(OTTO, chat_key=LIN, field="tools", value={"nekro.dice": "no"})
    with pytest.raises(ChangedMeanwhile):
        await chats.switch_tool(OTTO, chat_key=LIN, name=DICE, on=False, revision="0" * 16)
    with pytest.raises(NotAllowed):
        await chats.switch_tool(VERA, chat_key=LIN, name=DICE, on=False)
