"""What a chat command changes is in the audit log, and an operator takes it back on a page."""

import time
from pathlib import Path

import anyio
import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.policy.permissions import CommandSettings
from nekro_core.policy.settings import TriggerSettings
from nekro_core.testing.platform import ACCOUNT, NAME, TestPlatform
from tests.delivery.fakes import message

pytestmark = pytest.mark.jail

LIN = ChatKey.parse(f"{NAME}-private_lin")
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)


async def test_a_persona_set_by_a_command_is_taken_back_on_a_page(tmp_path: Path) -> None:
    settings = Settings(
        nekro_data_dir=tmp_path,
        nekro_trigger=TriggerSettings(debounce_s=0),
        nekro_command=CommandSettings(super_users=frozenset({f"{NAME}:lin"})),
        _env_file=None,
    )  # type: ignore[call-arg]
    platform = TestPlatform()
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as app:
        app.add_adapter(platform)
        await app.host.instance_of(NAME, ACCOUNT)
        await app.start()
        said = message(
            LIN, "/persona You are a cat.", message_id="m1", time=time.time(), to_bot=True
        )
        await app.host.accept(said)
        with anyio.fail_after(30):
            await platform.until(lambda: bool(platform.sent))
        chats, audit = app.operations.chats, app.operations.audit
        (entry,) = await audit.newest(OTTO, area="chats")
        assert (entry.action, entry.origin, entry.outcome) == ("chats.set_policy", "chat", "done")
        assert entry.actor.endswith(":lin")
        assert (await chats.policy(OTTO, chat_key=LIN)).own == {"persona": "You are a cat."}
        await audit.undo(OTTO, entry_id=entry.entry_id)
        assert (await chats.policy(OTTO, chat_key=LIN)).own == {}
