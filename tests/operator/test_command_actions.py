"""Each chat command that changes something performs an action of operators, as the console does. So
the audit log has an entry. If the action is refused, the chat gets the text of its error."""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.actions import BoundAction
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.store import AuditRow
from nekro_core.testing.platform import ACCOUNT, NAME, TestPlatform
from tests.delivery.fakes import message

pytestmark = pytest.mark.jail

LIN = ChatKey.parse(f"{NAME}-private_linlin")
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)

CHANGING = {
    "on": ("/on", "chats.set_policy"),
    "off": ("/off", "chats.set_policy"),
    "observe": ("/observe", "chats.set_policy"),
    "persona": ("/persona You are a cat.", "chats.set_policy"),
    "model": ("/model embedded,default", "chats.set_policy"),
    "participation": ("/participation mentioned", "chats.set_policy"),
    "permit": ("/permit reset advanced", "chats.set_policy"),
    "quota": ("/quota chat turns:50", "chats.set_policy"),
    "stop": ("/stop", "chats.stop"),
    "reset": ("/reset", "chats.reset"),
    "erase": ("/erase 10002 sure", "erasure.erase_person"),
}
"""Each command that changes something: its text and the name of the action."""
READING = {"status", "help"}
MEMORY = {"memory", "learn", "compact"}
"""Commands with which members change what is remembered about them and their chat."""
UNDOABLE = {"on", "off", "observe", "persona", "model", "participation", "permit", "quota"}


class Talk:
    def __init__(self, app: App, platform: TestPlatform) -> None:
        self.app, self.platform = app, platform

    async def answer(self, text: str) -> str:
        """Write a command, and return the bot's answer."""
        before = len(self.platform.sent)
        now = time.time()
        said = message(LIN, text, user="linlin", message_id=f"m{time.monotonic_ns()}", time=now)
        await self.app.host.accept(said)
        with anyio.fail_after(60):
            await self.platform.until(lambda: len(self.platform.sent) > before)
        return self.platform.sent[-1].text

    async def entry(self) -> AuditRow:
        (entry,) = await self.app.operations.audit.newest(OTTO, limit=1)
        return entry


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    settings = Settings(
        nekro_data_dir=tmp_path,
        nekro_trigger=TriggerSettings(debounce_s=0),
        nekro_command=CommandSettings(super_users=frozenset({f"{NAME}:linlin"})),
        _env_file=None,
    )  # type: ignore[call-arg]
    platform = TestPlatform()
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as app:
        app.add_adapter(platform)
        await app.host.instance_of(NAME, ACCOUNT)
        await app.start()
        yield Talk(app, platform)


async def test_the_tables_of_this_module_name_all_commands(talk: Talk) -> None:
    known = set(re.findall(r"^/(\w+)", await talk.answer("/help"), re.MULTILINE))
    assert known == CHANGING.keys() | READING | MEMORY


@pytest.mark.parametrize("name", CHANGING)
async def test_a_command_that_changes_something_performs_an_action_of_operators(
    talk: Talk, name: str
) -> None:
    written, action = CHANGING[name]
    assert await talk.answer(written)
    entry = await talk.entry()
    assert (entry.action, entry.origin, entry.outcome) == (action, "chat", "done")
    assert (entry.actor, entry.role) == (f"{NAME}:linlin", "operator")
    assert bool(entry.undo_action) == (name in UNDOABLE)
    operation = talk.app.operations.operation(action)
    assert isinstance(operation, BoundAction)
    assert operation.declaration.summary, "the page and the API need a description of the action"


async def test_a_persona_set_by_a_command_is_undone_on_a_page(talk: Talk) -> None:
    chats, audit = talk.app.operations.chats, talk.app.operations.audit
    await talk.answer("/persona You are a cat.")
    assert (await chats.policy(OTTO, chat_key=LIN)).own == {"persona": "You are a cat."}
    await audit.undo(OTTO, entry_id=(await talk.entry()).entry_id)
    assert (await chats.policy(OTTO, chat_key=LIN)).own == {}


async def test_a_quota_that_a_command_sets_is_in_the_audit_log_and_can_be_undone(
    talk: Talk,
) -> None:
    operations = talk.app.operations
    assert await talk.answer("/quota 10002 turns:5 money:0.5") == "The quota is changed."
    entry = await talk.entry()
    assert (entry.action, entry.subject) == ("chats.set_person_quota", f"{NAME}:10002")
    of_person = {"place": NAME, "user_id": "10002"}
    assert await operations.chats.person_quota(OTTO, **of_person) == {"turns": 5, "money": 0.5}
    await talk.answer("/quota 10002 money:default")
    assert await operations.chats.person_quota(OTTO, **of_person) == {"turns": 5}
    await operations.audit.undo(OTTO, entry_id=(await talk.entry()).entry_id)
    await operations.audit.undo(OTTO, entry_id=entry.entry_id)
    assert await operations.chats.person_quota(OTTO, **of_person) == {}


@pytest.mark.parametrize(
    ("written", "action", "parameters"),
    [
        (
            "/quota chat turns:-1",
            "chats.set_policy",
            {"chat_key": str(LIN), "field": "chat_quota", "value": {"turns": -1}},
        ),
        (
            "/quota 10002 money:inf",
            "chats.set_person_quota",
            {"place": NAME, "user_id": "10002", "quota": {"money": float("inf")}},
        ),
    ],
)
async def test_a_refused_command_shows_the_error_of_the_action(
    talk: Talk, written: str, action: str, parameters: dict[str, object]
) -> None:
    said = await talk.answer(written)
    assert (await talk.entry()).outcome == "failed"
    with pytest.raises(InvalidParameters) as refused:
        await talk.app.operations.perform(OTTO, action, parameters)
    assert said == f"That is not possible: {refused.value}"


async def test_the_audit_log_does_not_name_an_erased_person(talk: Talk) -> None:
    assert (await talk.answer("/erase 10002 sure")).startswith("Forgotten")
    entry = await talk.entry()
    assert "10002" not in str(entry)
    await talk.answer("/erase me sure")
    with anyio.fail_after(30):
        while "linlin" in str(await talk.app.operations.audit.newest(OTTO)):
            await anyio.sleep(0.05)


async def test_when_a_chat_is_switched_off_on_a_page_its_turn_stops(tmp_path: Path) -> None:
    began, platform = anyio.Event(), TestPlatform()

    async def endless() -> AsyncIterator[str]:
        began.set()
        yield "```python\n"
        await anyio.sleep_forever()

    settings = Settings(
        nekro_data_dir=tmp_path, nekro_trigger=TriggerSettings(debounce_s=0), _env_file=None
    )  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel([endless()])) as app:
        app.add_adapter(platform)
        await app.host.instance_of(NAME, ACCOUNT)
        await app.start()
        await app.host.accept(message(LIN, "hello", message_id="m1", time=time.time()))
        with anyio.fail_after(30):
            await began.wait()
            chats = app.operations.chats
            await chats.set_policy(OTTO, chat_key=LIN, field="state", value="off")
            while (await chats.one(OTTO, chat_key=LIN)).working:
                await anyio.sleep(0.01)
