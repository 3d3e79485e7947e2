"""If a bot runs, ``nekro outbox`` uses the HTTP API of the bot. Otherwise it uses the database."""

from argparse import Namespace
from pathlib import Path

import pytest

from nekro_core.app.instance import instance_file
from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, Text
from nekro_core.cli import outbox
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.store import DataFolderLock, Store
from tests.adapters.web.running import web
from tests.delivery.fakes import FakeAdapter

GROUP = ChatKey.parse("fake-group_1")


async def lost(folder: Path) -> str:
    """Send a message whose outcome is unknown; returns its delivery id."""
    adapter = FakeAdapter()

    async def answer(_: Delivery) -> Receipt:
        return Receipt(state=DeliveryState.UNKNOWN, reason="no answer\x1b]0;x\x07")

    adapter.behaviour = answer
    (folder / "data").mkdir(exist_ok=True)
    async with (
        Store.open(f"sqlite://{folder}/data/nekro.sqlite3") as store,
        Outbox(store, {"fake": adapter}, Broadcast()) as outbox,
    ):
        await outbox.send(GROUP, (Text("hi\x1b[2J"),))
        (row,) = await outbox.admin.listed()
        return row.delivery_id


async def said(capsys: pytest.CaptureFixture[str], action: str, **options: object) -> str:
    known = {"states": "", "chat": "", "limit": 50, "id": ""} | options
    status = await outbox.run(Namespace(action=action, **known))
    out = capsys.readouterr()
    assert bool(status) == bool(out.err)
    return out.out + out.err


async def test_outbox_list_resend_and_drop_work_without_a_bot(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "all that was sent has arrived" in await said(capsys, "list")
    name = await lost(folder)
    listed = await said(capsys, "list")
    assert name in listed
    assert "unknown " in listed
    assert "(no answer" in listed
    assert "\x1b" not in listed
    assert "all that was sent" in await said(capsys, "list", chat="fake-group_2")
    assert "when the bot starts within" in await said(capsys, "resend", id=name)
    assert "pending " in await said(capsys, "list")
    assert "is pending: nothing to resend" in await said(capsys, "resend", id=name)
    assert await said(capsys, "drop", id=name) == "dropped\n"
    assert "all that was sent" in await said(capsys, "list")
    assert "dropped by the operator" in await said(capsys, "list", states="all")


async def test_outbox_commands_use_the_api_of_a_running_bot(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = await lost(folder)
    data = folder / "data"
    async with (
        Store.open(f"sqlite://{data}/nekro.sqlite3") as store,
        Outbox(store, {"fake": FakeAdapter()}, Broadcast()) as outbox,
        web(data, outbox=outbox.admin) as bot,
    ):
        port = int(bot.url.rpartition(":")[2])
        with DataFolderLock(data), instance_file(data, "127.0.0.1", port, bot.site.access_token):
            assert name in await said(capsys, "list")
            assert "all that was sent" in await said(capsys, "list", chat="fake-group_2")
            assert "expected all, or some of" in await said(capsys, "list", states="odd")
            assert "pending " in await said(capsys, "resend", id=name)
            assert "there is no message 'x'" in await said(capsys, "drop", id="x")


async def test_an_impossible_request_is_refused_with_a_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no message 'x'" in await said(capsys, "drop", id="x")
    assert "expected all, or some of pending" in await said(capsys, "list", states="odd")
    assert "is no chat key" in await said(capsys, "list", chat="odd")
    with DataFolderLock(folder / "data"):
        assert "is in use by" in await said(capsys, "list")
