"""An operator sees the network rules and what was refused, and changes the rules at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nekro_core.sandbox.egress import Egress, EgressRules
from nekro_core.sandbox.egress.admin import (
    EgressAdmin,
    EgressRulesChanged,
    EgressTable,
    InvalidEgressRules,
)
from nekro_core.sandbox.egress.dial import Dialer
from nekro_core.sandbox.egress.overrides import EgressOverridesFile
from nekro_core.sandbox.egress.refusals import EgressRefusals
from nekro_core.sandbox.egress.rules import Destination
from tests.sandbox.egress.world import PUBLIC, Internet, LoopbackBox, World

CHAT = "onebot_v11-group_30003"


@asynccontextmanager
async def administered(folder: Path, *allowed: str) -> AsyncIterator[tuple[EgressAdmin, Egress]]:
    path, default = folder / "egress.toml", EgressRules.parse(allowed)
    rules = EgressOverridesFile(path, default)
    internet = Internet({"a.example": [[PUBLIC]], "b.example": [[PUBLIC]]})
    dialer = Dialer(resolve=internet.resolve, connect=internet.connect)
    async with Egress.open(rules.rules, dialer=dialer) as egress:
        table = EgressTable(owner="", allow=allowed)
        yield EgressAdmin(path, rules, egress, egress.refusals, table), egress


@asynccontextmanager
async def box_of(egress: Egress, owner: str) -> AsyncIterator[LoopbackBox]:
    """A running box of an owner."""
    box = LoopbackBox()
    await egress.attach(owner, "default", box)
    yield box
    if box.listener is not None:
        await box.listener.aclose()


def may(egress: Egress, owner: str, authority: str, box: str = "default") -> bool:
    return egress._allow(owner, box).find(Destination.parse(authority)) is not None


async def test_rules_of_a_chat_take_effect_as_soon_as_they_are_written(tmp_path: Path) -> None:
    async with (
        administered(tmp_path, "a.example") as (admin, egress),
        box_of(egress, CHAT) as box,
    ):
        assert box.environment  # the settings allow a destination, so the box has a proxy
        await admin.put(EgressTable(owner=CHAT))
        assert box.environment == {}  # the box has no network any more
        await admin.put(EgressTable(owner=CHAT, allow=("b.example",), private=("nas.lan:80",)))
        assert box.environment
        assert may(egress, CHAT, "b.example:443")
        assert not may(egress, CHAT, "a.example:443")
        await admin.put(EgressTable(owner=CHAT, box="build", allow=("a.example:22",)))
        assert may(egress, CHAT, "a.example:22", "build")
        shown = await admin.shown()
        assert shown.default.allow == ("a.example",)
        assert shown.tables == (
            EgressTable(owner=CHAT, allow=("b.example",), private=("nas.lan:80",)),
            EgressTable(owner=CHAT, box="build", allow=("a.example:22",)),
        )
        await admin.remove(CHAT, "build")
        assert may(egress, CHAT, "b.example:443", "build")
        await admin.remove(CHAT)
        assert may(egress, CHAT, "a.example:443")
        assert (await admin.shown()).tables == ()


async def test_rules_of_one_box_leave_the_settings_to_the_other_boxes(tmp_path: Path) -> None:
    async with administered(tmp_path, "a.example") as (admin, egress):
        await admin.put(EgressTable(owner=CHAT, box="build", allow=("b.example",)))
        await admin.put(EgressTable(owner=CHAT, box="test"))
        assert may(egress, CHAT, "b.example:443", "build")
        assert not may(egress, CHAT, "a.example:443", "build")
        assert may(egress, CHAT, "a.example:443")
        await admin.remove(CHAT, "test")
        assert (await admin.shown()).tables == (
            EgressTable(owner=CHAT, box="build", allow=("b.example",)),
        )
        await admin.remove(CHAT, "build")
        assert (await admin.shown()).tables == ()
        assert may(egress, CHAT, "a.example:443", "build")
        assert CHAT not in (tmp_path / "egress.toml").read_text("utf-8")


async def test_removing_the_rules_of_a_box_keeps_those_of_its_owner(tmp_path: Path) -> None:
    async with administered(tmp_path, "a.example") as (admin, egress):
        await admin.put(EgressTable(owner=CHAT))
        await admin.put(EgressTable(owner=CHAT, box="build", allow=("b.example",)))
        await admin.remove(CHAT, "build")
        assert (await admin.shown()).tables == (EgressTable(owner=CHAT),)
        assert not may(egress, CHAT, "a.example:443", "build")


async def test_the_operators_comments_are_kept(tmp_path: Path) -> None:
    (tmp_path / "egress.toml").write_text(
        '# my rules\n[mio]\nallow = ["x.example"]  # for her\n', "utf-8"
    )
    async with administered(tmp_path) as (admin, _):
        await admin.put(EgressTable(owner=CHAT, allow=("b.example",)))
        await admin.remove(CHAT)
    text = (tmp_path / "egress.toml").read_text("utf-8")
    assert "# my rules" in text
    assert "# for her" in text


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (EgressTable(owner=CHAT, allow=("a b",)), "'a b' is no rule"),
        (EgressTable(owner=CHAT, allow=("a.example:99999",)), "no port"),
        (EgressTable(owner=CHAT, private=("*",)), "no rule"),
        (EgressTable(owner=""), "name a chat"),
    ],
)
async def test_an_invalid_rule_is_refused_and_changes_nothing(
    tmp_path: Path, table: EgressTable, says: str
) -> None:
    async with administered(tmp_path, "a.example") as (admin, egress):
        with pytest.raises(InvalidEgressRules, match=says):
            await admin.put(table)
        with pytest.raises(InvalidEgressRules, match="no rules of"):
            await admin.remove("nobody")
        assert may(egress, CHAT, "a.example:443")
    assert not (tmp_path / "egress.toml").exists()


async def test_a_change_based_on_an_old_revision_is_refused(tmp_path: Path) -> None:
    async with administered(tmp_path) as (admin, _):
        revision = (await admin.shown()).revision
        await admin.put(EgressTable(owner="a"), revision=revision)
        with pytest.raises(EgressRulesChanged):
            await admin.put(EgressTable(owner="b"), revision=revision)
        with pytest.raises(EgressRulesChanged):
            await admin.remove("a", revision=revision)


async def test_a_file_that_was_broken_by_hand_is_reported_and_not_overwritten(
    tmp_path: Path,
) -> None:
    async with administered(tmp_path) as (admin, _):
        await admin.put(EgressTable(owner=CHAT, allow=("b.example",)))
        (tmp_path / "egress.toml").write_text("[a", "utf-8")
        assert (await admin.shown()).problem
        with pytest.raises(InvalidEgressRules, match="cannot be read"):
            await admin.put(EgressTable(owner=CHAT))
    assert (tmp_path / "egress.toml").read_text("utf-8") == "[a"


async def test_changed_settings_apply_only_to_boxes_without_rules_in_the_file(
    tmp_path: Path,
) -> None:
    async with administered(tmp_path, "a.example") as (admin, egress):
        await admin.put(EgressTable(owner=CHAT, allow=("a.example",)))
        await admin.set_default(("b.example",), ())
        assert may(egress, "other", "b.example:443")
        assert not may(egress, "other", "a.example:443")
        assert may(egress, CHAT, "a.example:443")
        with pytest.raises(InvalidEgressRules):
            await admin.set_default(("a b",), ())
        assert (await admin.shown()).default.allow == ("b.example",)


async def test_refused_destinations_are_counted_for_each_owner(tmp_path: Path) -> None:
    async with (
        administered(tmp_path, "a.example") as (admin, egress),
        box_of(egress, CHAT) as box,
    ):
        assert box.listener is not None
        bot = World(egress, Internet(), box, {}, [0.0])
        for _ in range(3):
            assert await bot.status("evil.example:443") == 403
        assert await bot.status("EVIL.example:443") == 403
        refused = admin.refusals.newest(CHAT)
        assert [(each.destination, each.count) for each in refused] == [
            ("EVIL.example:443", 1),
            ("evil.example:443", 3),
        ]
        assert "no rule" in refused[1].reason
        assert admin.refusals.newest("other") == []
        assert admin.refusals.newest() == refused


def test_the_number_of_kept_refusals_and_the_length_of_each_are_limited() -> None:
    times = iter(range(1_000_000))
    refusals = EgressRefusals(lambda: float(next(times)))
    for number in range(3000):
        refusals.add("loop", f"{number}.example:443" + "x" * 1000, "no" * 1000)
        refusals.add(f"owner{number}", "a.example:443", "no rule")
    assert len(refusals.newest("loop", limit=9999)) == 50
    assert len(refusals.newest("loop")[0].destination) == 300
    assert len(refusals.newest(limit=99999)) <= 1000 + 50
    refusals.forget("loop")
    assert refusals.newest("loop") == []
