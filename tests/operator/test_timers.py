"""An operator sets, pauses and deletes timers of any chat, and undoes these changes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.errors import ChangedMeanwhile, NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.timers import BadSchedule, TimerRefused

GROUP = ChatKey.parse("onebot_v11-group_30003")
OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)

pytestmark = pytest.mark.jail


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as running:
        yield running


async def test_undo_restores_a_deleted_timer(app: App) -> None:
    timers, audit = app.operations.timers, app.operations.audit
    made = await timers.set_recurring(
        OTTO, chat_key=GROUP, cron="0 8 * * *", text="say good morning", title="morning"
    )
    gone = await timers.delete(OTTO, timer_id=made.result.timer_id)
    assert await timers.all(OTTO) == []
    await audit.undo(OTTO, entry_id=gone.entry_id)
    (row,) = await timers.all(OTTO, chat_key=GROUP)
    assert (row.cron, row.text, row.title) == ("0 8 * * *", "say good morning", "morning")


async def test_undo_resumes_a_paused_timer(app: App) -> None:
    timers, audit = app.operations.timers, app.operations.audit
    made = await timers.set_recurring(OTTO, chat_key=GROUP, cron="@daily", text="count")
    paused = await timers.pause(OTTO, timer_id=made.result.timer_id)
    assert paused.result.state == "paused"
    await audit.undo(OTTO, entry_id=paused.entry_id)
    (row,) = await timers.all(OTTO)
    assert row.state == "active"


async def test_pausing_a_paused_timer_and_resuming_an_active_one_offer_no_undo(app: App) -> None:
    timers, audit = app.operations.timers, app.operations.audit
    made = await timers.set_recurring(OTTO, chat_key=GROUP, cron="@daily", text="count")
    name = {"timer_id": made.result.timer_id}
    done = [await act(OTTO, **name) for act in (timers.pause,) * 2 + (timers.resume,) * 2]
    assert [each.undoable for each in done] == [True, False, True, False]
    entries = list(reversed(await audit.newest(OTTO)))[1:]
    assert [(each.old, each.new) for each in entries] == [
        ('"active"', '"paused"'),
        ('"paused"', '"paused"'),
        ('"paused"', '"active"'),
        ('"active"', '"active"'),
    ]
    with pytest.raises(ChangedMeanwhile, match=r"timers\.resume"):
        await audit.undo(OTTO, entry_id=done[0].entry_id)
    await audit.undo(OTTO, entry_id=done[2].entry_id)
    await audit.undo(OTTO, entry_id=done[0].entry_id)
    (row,) = await timers.all(OTTO)
    assert row.state == "active"


async def test_impossible_timers_are_refused_with_the_reason(app: App) -> None:
    timers = app.operations.timers
    with pytest.raises(BadSchedule, match="cron"):
        await timers.set_recurring(OTTO, chat_key=GROUP, cron="61 * * * *", text="x")
    with pytest.raises(TimerRefused, match="is over"):
        await timers.set_once(OTTO, chat_key=GROUP, due=5.0, text="x")
    with pytest.raises(NoSuchItem, match="no timer 'x'"):
        await timers.delete(OTTO, timer_id="x")
    with pytest.raises(NoSuchItem, match="no task"):
        await timers.cancel_task(OTTO, task_type="a", task_id="b")
