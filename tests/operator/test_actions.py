"""Queries and actions check the role and their parameters. Actions are in the audit log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import anyio
import pytest
from pydantic import Field, SecretStr

from nekro_core.chat import ChatKey
from nekro_core.operator.actions import NO_PROGRESS, Area, BoundAction, Progress, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.audit_area import Audit
from nekro_core.operator.entry_limit import MAX_ENTRIES
from nekro_core.operator.errors import (
    ChangedMeanwhile,
    InvalidParameters,
    NoSuchItem,
    NotAllowed,
    OperatorError,
)
from nekro_core.operator.jobs import MAX_RUNNING, Jobs, JobState
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import AuditRow, Store
from nekro_core.system.background_tasks import background_tasks

VIEWER = Actor(name="vera", role=AccessRole.VIEWER, origin=RequestOrigin.PAGE)
OPERATOR = Actor(
    name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.API, address="127.0.0.1"
)
OWNER = Actor(name="ona", role=AccessRole.OWNER, origin=RequestOrigin.CLI)
GROUP = ChatKey.parse("onebot_v11-group_30003")


class Lamps(Area):
    """A small area: lamps of chats that are on or off."""

    name = "lamps"

    def __init__(self, audit: AuditLog) -> None:
        super().__init__(audit)
        self.brightness = {str(GROUP): 10}
        self.waiting = anyio.Event()

    @query(role=AccessRole.VIEWER)
    async def read(self, actor: Actor, *, chat_key: ChatKey) -> int:
        """Read how bright a lamp is.

        Args:
            chat_key: The chat of the lamp.
        """
        return self.brightness[str(chat_key)]

    @action(role=AccessRole.OPERATOR)
    async def dim(
        self,
        actor: Actor,
        *,
        chat_key: ChatKey,
        to: Annotated[int, Field(ge=0, le=100)],
    ) -> Change[int]:
        """Set how bright a lamp is.

        Args:
            chat_key: The chat of the lamp.
            to: The brightness in per cent.
        """
        old = self.brightness[str(chat_key)]
        self.brightness[str(chat_key)] = to
        undo = UndoCall(action="lamps.dim", parameters={"chat_key": str(chat_key), "to": old})
        return Change(result=to, subject=str(chat_key), old=old, new=to, undo=undo)

    @action(role=AccessRole.OWNER, destructive=True)
    async def lock(self, actor: Actor, *, password: SecretStr) -> Change[None]:
        """Lock all lamps."""
        if len(password.get_secret_value()) < 4:
            raise OperatorError("the password has 3 characters, expected at least 4")
        return Change(result=None, subject="all")

    @action(role=AccessRole.OPERATOR)
    async def burn(
        self,
        actor: Actor,
        *,
        hours: float = 1.0,
        progress: Progress = NO_PROGRESS,
    ) -> Change[float]:
        """Let a lamp burn until somebody cancels it."""
        progress.report("burning", done=0.5, total=hours)
        self.waiting.set()
        await anyio.sleep_forever()
        return Change(result=hours)


@dataclass
class House:
    """The lamps with an audit log."""

    store: Store
    log: AuditLog
    lamps: Lamps

    async def entries(self) -> list[AuditRow]:
        return await self.store.audit.newest()


@asynccontextmanager
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3", clock=lambda: 1_000.0) as store:
        log = AuditLog(store.audit)
        yield House(store, log, Lamps(log))


async def test_a_viewer_reads_and_may_not_change_anything(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        assert await home.lamps.read(VIEWER, chat_key=GROUP) == 10
        with pytest.raises(NotAllowed, match=r"lamps\.dim needs the role operator, not viewer"):
            await home.lamps.dim(VIEWER, chat_key=GROUP, to=20)
        assert home.lamps.brightness[str(GROUP)] == 10
        (entry,) = await home.entries()
        assert (entry.actor, entry.action, entry.outcome) == ("vera", "lamps.dim", "denied")


async def test_an_action_is_in_the_audit_log_with_the_old_and_the_new_value(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        done = await home.lamps.dim(OPERATOR, chat_key=GROUP, to=20)
        assert (done.result, done.undoable) == (20, True)
        (entry,) = await home.entries()
        assert (entry.actor, entry.role, entry.origin) == ("otto", "operator", "api")
        assert (entry.address, entry.subject, entry.old, entry.new) == (
            "127.0.0.1",
            str(GROUP),
            "10",
            "20",
        )
        assert (entry.outcome, entry.at) == ("done", 1_000.0)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"to": 1}, "chat_key: Field required"),
        ({"chat_key": "nonsense", "to": 1}, "chat_key: 'nonsense' is no chat key"),
        ({"chat_key": str(GROUP), "to": 101}, "to: Input should be less than or equal to 100"),
        ({"chat_key": str(GROUP), "to": 1, "color": "red"}, "color: Extra inputs"),
        ({"chat_key": str(GROUP), "to": "much"}, "to: Input should be a valid integer"),
    ],
)
async def test_invalid_parameters_are_refused_and_named(
    tmp_path: Path, parameters: dict[str, object], problem: str
) -> None:
    async with house(tmp_path) as home:
        with pytest.raises(InvalidParameters) as raised:
            await home.lamps.dim.invoke(OPERATOR, parameters)
        assert problem in str(raised.value)
        assert home.lamps.brightness[str(GROUP)] == 10
        assert await home.entries() == []


async def test_a_secret_is_not_in_the_audit_log(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.lamps.lock(OWNER, password=SecretStr("hunter22"))
        with pytest.raises(OperatorError):
            await home.lamps.lock.invoke(OWNER, {"password": "abc"})
        failed, locked = await home.entries()
        assert "hunter22" not in repr(locked)
        assert (failed.outcome, failed.error) == (
            "failed",
            "the password has 3 characters, expected at least 4",
        )


async def test_a_secret_in_the_wrong_place_is_not_in_the_audit_log(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        for place in (
            {"fields": {"api_key": "hunter22", "max_tokens": "many"}},
            {"entry": {"headers": {"Authorization": "Bearer hunter22"}, "env": {"K": "${TOK}"}}},
            {"args": ["--api-key=hunter22", "--token=${TOK}"]},
            {"url": "https://otto:hunter22@host/x", "list": ["http://h/?a=1&key=hunter22"]},
        ):
            await home.log.failed(
                await home.log.begin(OWNER, "lamps.dim", place), "failed", "s://u:hunter22@h"
            )
        entries = await home.entries()
        assert "hunter22" not in repr(entries)
        stored = "".join(each.parameters for each in entries)
        for each in ("many", "${TOK}", "https://otto:***@host/x", "?a=1&key=***", "api_key"):
            assert each in stored


async def test_denied_actions_cannot_fill_the_audit_log(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        for number in range(MAX_ENTRIES + 20):
            renamed = replace(VIEWER, name=f"vera {number}", address="192.0.2.1")
            with pytest.raises(NotAllowed):
                await home.lamps.dim(renamed, chat_key=GROUP, to=20)
        assert len(await home.store.audit.newest(limit=500)) == MAX_ENTRIES
        with pytest.raises(NotAllowed):
            await home.lamps.dim(replace(VIEWER, address="192.0.2.2"), chat_key=GROUP, to=20)
        assert len(await home.store.audit.newest(limit=500)) == MAX_ENTRIES + 1


async def test_a_viewer_can_call_undo_only_a_limited_number_of_times(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        audit = audit_of(home)
        for _ in range(MAX_ENTRIES):
            with pytest.raises(NoSuchItem):
                await audit.undo(VIEWER, entry_id=99_999)
        with pytest.raises(NotAllowed, match="too many actions"):
            await audit.undo(VIEWER, entry_id=99_999)
        with pytest.raises(NoSuchItem):
            await audit.undo(OPERATOR, entry_id=99_999)


async def test_a_token_acts_only_within_its_scopes(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        reader = Actor(
            name="otto",
            role=AccessRole.OPERATOR,
            origin=RequestOrigin.API,
            scopes=frozenset({"lamps:read"}),
        )
        assert await home.lamps.read(reader, chat_key=GROUP) == 10
        with pytest.raises(NotAllowed, match="needs the scope lamps:act"):
            await home.lamps.dim(reader, chat_key=GROUP, to=1)


def audit_of(home: House) -> Audit:
    async def perform(actor: Actor, name: str, parameters: object) -> object:
        operation = getattr(home.lamps, name.partition(".")[2])
        assert isinstance(operation, BoundAction)
        return await operation.invoke(actor, parameters)  # type: ignore[arg-type]

    return Audit(home.log, perform)  # type: ignore[arg-type]


async def test_a_change_is_undone_only_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        audit = audit_of(home)
        done = await home.lamps.dim(OPERATOR, chat_key=GROUP, to=20)
        with pytest.raises(NotAllowed):
            await audit.undo(VIEWER, entry_id=done.entry_id)
        await audit.undo(OPERATOR, entry_id=done.entry_id)
        assert home.lamps.brightness[str(GROUP)] == 10
        with pytest.raises(OperatorError, match="has taken this change back already"):
            await audit.undo(OPERATOR, entry_id=done.entry_id)
        with pytest.raises(NoSuchItem, match="no entry 999"):
            await audit.undo(OPERATOR, entry_id=999)


async def test_a_change_is_undone_only_once_by_two_browsers_at_the_same_time(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        audit = audit_of(home)
        done = await home.lamps.dim(OPERATOR, chat_key=GROUP, to=20)
        outcomes: list[str] = []

        async def undo() -> None:
            try:
                await audit.undo(OPERATOR, entry_id=done.entry_id)
            except OperatorError:
                outcomes.append("refused")
            else:
                outcomes.append("taken back")

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(undo)
        assert sorted(outcomes) == ["refused"] * 3 + ["taken back"]
        dimmed = [each for each in await home.entries() if each.action == "lamps.dim"]
        assert len(dimmed) == 2


async def test_a_change_is_undone_only_after_the_later_changes(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        audit = audit_of(home)
        first = await home.lamps.dim(OPERATOR, chat_key=GROUP, to=20)
        second = await home.lamps.dim(OWNER, chat_key=GROUP, to=30)
        with pytest.raises(ChangedMeanwhile, match="ona has changed"):
            await audit.undo(OPERATOR, entry_id=first.entry_id)
        await audit.undo(OWNER, entry_id=second.entry_id)
        await audit.undo(OPERATOR, entry_id=first.entry_id)
        assert home.lamps.brightness[str(GROUP)] == 10


async def test_a_long_action_shows_its_progress_and_is_cancelled(tmp_path: Path) -> None:
    async with house(tmp_path) as home, background_tasks() as tasks:
        jobs = Jobs(home.log, tasks, lambda: 1_000.0)
        job = jobs.start(home.lamps.burn, OPERATOR, {"hours": 2})
        await home.lamps.waiting.wait()
        view = await jobs.one(VIEWER, job_id=job.job_id)
        assert (view.state, view.text, view.total) == (JobState.RUNNING, "burning", 2.0)
        assert view.parameters == {"hours": 2}
        assert jobs.running("lamps.burn", hours=2) is job
        assert jobs.running("lamps.burn", hours=3) is None
        done = await jobs.cancel(OPERATOR, job_id=job.job_id)
        assert done.result.state is JobState.CANCELLED
        assert jobs.running("lamps.burn", hours=2) is None
        burning = next(each for each in await home.entries() if each.action == "lamps.burn")
        assert burning.outcome == "cancelled"
        await jobs.cancel(OPERATOR, job_id=job.job_id)
        again, first = [each for each in await home.entries() if each.action == "jobs.cancel"]
        assert (first.old, first.new) == ('"running"', '"cancelled"')
        assert (again.old, again.new) == ('"cancelled"', '"cancelled"')


async def test_the_number_of_long_actions_is_limited(tmp_path: Path) -> None:
    async with house(tmp_path) as home, background_tasks() as tasks:
        jobs = Jobs(home.log, tasks, lambda: 1_000.0)
        started = [jobs.start(home.lamps.burn, OPERATOR, {}) for _ in range(MAX_RUNNING)]
        with pytest.raises(OperatorError, match="32 long actions run already"):
            jobs.start(home.lamps.burn, OPERATOR, {})
        await jobs.cancel(OPERATOR, job_id=started[0].job_id)
        jobs.start(home.lamps.burn, OPERATOR, {})
        tasks.cancel_scope.cancel()


async def test_a_denied_long_action_is_in_the_audit_log(tmp_path: Path) -> None:
    async with house(tmp_path) as home, background_tasks() as tasks:
        jobs = Jobs(home.log, tasks, lambda: 1_000.0)
        with pytest.raises(NotAllowed, match=r"lamps\.burn needs the role operator, not viewer"):
            jobs.start(home.lamps.burn, VIEWER, {"hours": 2})
        with anyio.fail_after(30):
            while not (entries := await home.entries()) or entries[0].outcome != "denied":
                await anyio.sleep(0.01)
        assert (entries[0].action, entries[0].error) == (
            "lamps.burn",
            "lamps.burn needs the role operator, not viewer",
        )
        assert await jobs.newest(VIEWER) == []


async def test_denied_long_actions_cannot_fill_the_audit_log(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        async with background_tasks() as tasks:
            jobs = Jobs(home.log, tasks, lambda: 1_000.0)
            for _ in range(MAX_ENTRIES + 20):
                with pytest.raises(NotAllowed):
                    jobs.start(home.lamps.burn, VIEWER, {"hours": 2})
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(30):
                while len(entries := await home.store.audit.newest(limit=500)) < MAX_ENTRIES:
                    await anyio.sleep(0.01)
        assert len(entries) == MAX_ENTRIES


async def test_a_failed_long_action_says_why(tmp_path: Path) -> None:
    async with house(tmp_path) as home, background_tasks() as tasks:
        jobs = Jobs(home.log, tasks, lambda: 1_000.0)
        job = jobs.start(home.lamps.lock, OWNER, {"password": "abc"})
        await job.finished.wait()
        assert "abc" not in str(job.view().parameters), "the password is a secret"
        assert (job.state, job.text) == (
            JobState.FAILED,
            "the password has 3 characters, expected at least 4",
        )


async def test_the_schema_of_an_actions_parameters_has_the_descriptions_of_its_docstring() -> None:
    schema = Lamps.declared()["dim"].parameters.model_json_schema()
    assert schema["properties"]["to"]["description"] == "The brightness in per cent."
    assert schema["properties"]["chat_key"]["type"] == "string"
    assert Lamps.declared()["burn"].parameters.model_json_schema()["properties"].keys() == {"hours"}
