"""An operator lets the bot check all its parts, and can read the findings again later."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.operator.audit import AuditLog
from nekro_core.operator.health import Finding, Health
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import Store

OTTO = Actor(name="otto", role=AccessRole.OPERATOR, origin=RequestOrigin.PAGE)


async def test_the_findings_of_the_last_check_can_be_read_again(tmp_path: Path) -> None:
    async def examine() -> AsyncIterator[Finding]:
        yield Finding(area="disk", ok=True, seen="9 GB free")
        await anyio.sleep(0)
        yield Finding(area="voice", ok=False, seen="no engine", remedy="install one")

    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3", clock=lambda: 1_000.0) as store:
        health = Health(AuditLog(store.audit), examine, tuple, lambda: 1_000.0)
        assert (await health.report(OTTO)).at == 0.0
        done = await health.check(OTTO)
        assert [each.area for each in done.result.findings] == ["disk", "voice"]
        assert await health.report(OTTO) == done.result
        (entry,) = await store.audit.newest()
        assert entry.new == '["voice"]'


async def test_a_broken_file_is_reported_as_a_problem_without_a_check_of_all_parts(
    tmp_path: Path,
) -> None:
    settings = Settings(nekro_data_dir=tmp_path, _env_file=None)  # type: ignore[call-arg]
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "hi")) as app:
        health = app.operations.health
        assert await health.problems(OTTO) == ()
        (tmp_path / "conduct.toml").write_text("general = ")
        (found,) = await health.problems(OTTO)
        assert (found.area, found.ok) == ("conduct.toml", False)
        assert found.remedy.startswith("correct ")
        (tmp_path / "conduct.toml").unlink()
        assert await health.problems(OTTO) == ()
