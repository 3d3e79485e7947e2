"""An operator switches platforms on and off, and manages accounts, while a whole bot runs."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import SecretStr

from nekro_core.app.adapter_directory import AdapterDirectory
from nekro_core.app.adapters import adapter_makers
from nekro_core.app.app import App
from nekro_core.app.platform_control import FILE_NAME, read_enabled
from nekro_core.app.server import add_adapters
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, DeliveryState
from nekro_core.delivery.outbound.announcements import AnnouncementState
from nekro_core.delivery.platforms.switch import PlatformNotSwitched, PlatformState
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NoSuchItem, NotAllowed
from nekro_core.operator.platforms import HiddenSettings
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from tests.adapters.onebot_v11.running import TOKEN, new_driver, serving
from tests.peers.onebot_v11 import OneBotPeer

pytestmark = pytest.mark.jail

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.API)
OLGA = Actor(name="olga", role=AccessRole.OWNER, origin=RequestOrigin.API)
VERA = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.API)
SECRET = "hunter2-hunter2"
REPLY = "```python\nsend_channel_message('all is well')\n```"


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[App, int]]:
    """A bot with OneBot and a web server."""
    settings = Settings(
        nekro_data_dir=folder,
        nekro_platforms=read_enabled(folder),
        nekro_trigger={"debounce_s": 0.05},
        _env_file=None,  # type: ignore[call-arg]
    )
    configuration: dict[str, Any] = {
        "onebot_access_token": TOKEN,
        "nekro_platforms": settings.nekro_platforms,
    }
    driver = new_driver()
    found = AdapterDirectory.find(folder)
    wanted = ["onebot_v11", *settings.nekro_platforms]
    makers = adapter_makers(
        AdapterDirectory(manifests={name: found.manifests[name] for name in wanted}),
        configuration,
        wanted,
    )
    model = ScriptedModel(lambda _: REPLY)
    async with (
        App.open(settings, configuration, model=model, named_platforms=()) as app,
        serving(driver) as port,
    ):
        app.platforms.attach(app, driver, configuration)
        add_adapters(app, driver, makers)
        await app.start()
        try:
            yield app, port
        finally:
            await app.close_adapters()


def peer(port: int, self_id: str, token: str, **options: Any) -> OneBotPeer:
    url = f"ws://127.0.0.1:{port}/onebot/v11/ws"
    return OneBotPeer(self_id, token, url, **options)


async def test_a_second_account_is_added_paused_and_removed_while_the_first_one_answers(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (app, port), peer(port, "20002", TOKEN) as first:
        await first.wait_connected()
        platforms = app.operations.platforms
        settings = HiddenSettings({"account": "20003", "access_token": SECRET})
        with pytest.raises(NotAllowed):
            await platforms.add_account(VERA, platform="onebot_v11", settings=settings)
        added = await platforms.add_account(OTTO, platform="onebot_v11", settings=settings)
        assert added.result.key == "20003"

        async with peer(port, "20003", SECRET) as second:
            seen = await platforms.wait_until_seen(VERA, platform="onebot_v11", account="20003")
            assert seen.state == "online"
            await second.say_in_group(40001, 10001, "hello", at_me=True)
            assert (await second.next_send(60)).text == "all is well"

            name = {"platform": "onebot_v11", "account": "20003"}
            paused = await platforms.pause_account(OTTO, **name)
            await second.wait_disconnected()
            again = await platforms.pause_account(OTTO, **name)
            assert (paused.undoable, again.undoable) == (True, False)
            await first.say_in_group(40001, 10001, "hello", at_me=True)
            assert (await first.next_send(60)).text == "all is well"

            await app.operations.audit.undo(OTTO, entry_id=paused.entry_id)
            await second.wait_connected()
            assert not (await platforms.resume_account(OTTO, **name)).undoable
            await platforms.remove_account(OTTO, **name)
            await second.wait_disconnected()
        accounts = await platforms.accounts(VERA)
        assert [each.status.key for each in accounts] == ["20002"]
        log = await app.operations.audit.newest(OTTO)
        assert [each.action for each in log][:7] == [
            "platforms.remove_account",
            "platforms.resume_account",
            "platforms.resume_account",
            "audit.undo",
            "platforms.pause_account",
            "platforms.pause_account",
            "platforms.add_account",
        ]
        assert SECRET not in str(log)
        assert first.connections == 1


async def test_a_platform_is_switched_on_and_off_while_the_bot_runs_and_stays_so(
    tmp_path: Path,
) -> None:
    mailbox = {
        "id": "bot@example.test",
        "password": SECRET,
        "imap": {"host": "127.0.0.1", "port": 1, "tls": False},
        "smtp": {"host": "127.0.0.1", "port": 1, "tls": False},
    }
    async with running(tmp_path) as (app, _):
        platforms = app.operations.platforms
        states = {each.name: each for each in await platforms.listed(VERA)}
        assert states["onebot_v11"].state is PlatformState.RUNNING
        assert (states["mail"].state, states["mail"].manages_accounts) == ("off", True)
        with pytest.raises(NoSuchItem, match="does not run"):
            await platforms.form(VERA, platform="mail")

        assert (await platforms.enable(OTTO, platform="mail")).result.state == "running"
        form = await platforms.form(VERA, platform="mail")
        assert form.json_schema["properties"]["password"]["writeOnly"]
        await platforms.add_account(OTTO, platform="mail", settings=HiddenSettings(mailbox))
        test = await platforms.test_account(
            OLGA, platform="mail", settings=HiddenSettings({}), account="bot@example.test"
        )
        assert (test.result.ok, test.result.problem) == (False, "unreachable")
        bad, account = HiddenSettings({"imap": {"port": 70_000}}), "bot@example.test"
        with pytest.raises(InvalidParameters, match=r"settings\.imap\.port"):
            await platforms.change_account(OLGA, platform="mail", account=account, settings=bad)

        read = await platforms.account_settings(VERA, platform="mail", account=account)
        assert read.secrets == ("password",)
        change = {"platform": "mail", "account": account, "expected": read.revision}
        await platforms.change_account(OLGA, settings=HiddenSettings({"name": "One"}), **change)
        with pytest.raises(ChangedMeanwhile, match="somebody else has changed"):
            await platforms.change_account(OLGA, settings=HiddenSettings({"name": "Two"}), **change)
        read = await platforms.account_settings(VERA, platform="mail", account=account)
        assert read.values["name"] == "One"
    assert json.loads((tmp_path / FILE_NAME).read_text()) == ["mail"]

    async with running(tmp_path) as (app, _):
        platforms = app.operations.platforms
        (account,) = await platforms.accounts(VERA, platform="mail")
        assert account.status.key == "bot@example.test"
        off = await platforms.disable(OTTO, platform="mail")
        assert off.result.state is PlatformState.OFF
        assert await platforms.accounts(VERA, platform="mail") == []
        assert (await platforms.enable(OTTO, platform="mail")).result.state == "running"
        assert not (await platforms.enable(OTTO, platform="mail")).undoable
        assert not (await platforms.enable(OTTO, platform="onebot_v11")).undoable
        assert (await platforms.disable(OTTO, platform="mail")).undoable
        assert not (await platforms.disable(OTTO, platform="mail")).undoable
        with pytest.raises(PlatformNotSwitched, match="always runs"):
            await platforms.disable(OTTO, platform="onebot_v11")
        with pytest.raises(PlatformNotSwitched, match="no platform"):
            await platforms.enable(OTTO, platform="nonsense")
    assert read_enabled(tmp_path) == ()


async def test_a_request_is_answered_a_person_is_banned_and_an_announcement_is_sent(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (app, port), peer(port, "20002", TOKEN) as there:
        await there.wait_connected()
        operations = app.operations
        event = {"post_type": "request", "request_type": "friend", "self_id": 20002, "time": 5}
        await there.emit({**event, "user_id": 10001, "flag": "f1", "comment": "it is me"})
        with anyio.fail_after(30):
            while not (waiting := await operations.requests.listed(VERA)):
                await anyio.sleep(0.01)
        request_id = waiting[0].request_id
        answered = await operations.requests.answer(OTTO, request_id=request_id, approve=True)
        assert answered.result.state == "approved"
        call = await there.next_call("set_friend_add_request")
        assert call.params == {"flag": "f1", "approve": True}

        await operations.requests.ban(OTTO, place="onebot_v11", user_id="10009")
        await there.say_in_group(40001, 10009, "hello", at_me=True)
        await there.say_in_group(40001, 10001, "hello", at_me=True)
        assert (await there.next_send(60)).text == "all is well"
        assert [each.user_id for each in await operations.requests.banned(VERA)] == ["10009"]

        chats = tuple(ChatKey.parse(f"onebot_v11-group_{n}") for n in (40001, 40002))
        begun = await operations.broadcast.start(
            OTTO, text="closed today", chats=chats, per_minute=600
        )
        assert (await there.next_send(60)).text == "closed today"
        assert (await there.next_send(60)).text == "closed today"
        with anyio.fail_after(30):
            while True:
                name = begun.result.announcement_id
                view = await operations.broadcast.one(VERA, announcement_id=name)
                if view.summary.state is AnnouncementState.DONE:
                    break
                await anyio.sleep(0.01)
        assert view.summary.counts == {DeliveryState.SENT: 2}
        assert [call.params["group_id"] for call in there.sends[-2:]] == [40001, 40002]


def test_settings_of_an_account_are_not_shown_in_the_audit_log() -> None:
    assert SECRET not in repr(HiddenSettings({"password": SecretStr(SECRET), "x": SECRET}))
