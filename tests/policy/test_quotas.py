"""Quotas limit what people, chats and the whole bot may use in a day. The tests check how usage is
counted."""

import time
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey
from nekro_core.llm.model import RequestUsage
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy import Quota
from nekro_core.policy.limits import LimitExceeded, Limits
from nekro_core.policy.quotas import DAY_S, day_limits, quota_of_bot, quota_of_chat, quota_of_person
from nekro_core.store import Step
from tests.agent.bot import GROUP, LIN, Bot, running_bot
from tests.agent.conftest import BoxCache


async def used(
    bot: Bot, chat: ChatKey = GROUP, user: str = "lin", *, ago_s: float = 60.0, cost: float = 0.5
) -> None:
    """Store a turn that this person woke, with one reply of 70 prompt and 30 completion tokens."""
    turn = await bot.store.turns.begin(chat, trigger_seq=1, through_seq=1, user_id=user)
    step = Step(
        position=0,
        reply="",
        prompt_tokens=70,
        completion_tokens=30,
        cost=cost,
        started=time.time() - ago_s,
    )
    await bot.store.turns.add_step(turn.turn_id, step)
    await bot.store.turns.end(turn.turn_id, stop="done")


def bot_with(
    folder: Path, boxes: BoxCache, conduct: str = "", **turn: float
) -> AbstractAsyncContextManager[Bot]:
    folder.mkdir(exist_ok=True)
    (folder / "conduct.toml").write_text(conduct)
    settings = AgentSettings.model_validate({"turn": turn})
    return running_bot(folder, boxes, ScriptedModel([]), settings=settings)


async def kinds(bot: Bot, chat: ChatKey = GROUP, user: str = "lin") -> list[str]:
    """The kinds of the day limits that a turn of this person has."""
    return [limit.kind for limit in await day_limits(bot.services, chat, user)]  # type: ignore[attr-defined]


async def reached(bot: Bot, chat: ChatKey = GROUP, user: str = "lin") -> str:
    return Limits(await day_limits(bot.services, chat, user)).refusal()


@pytest.mark.parametrize(
    ("turn", "refusal"),
    [
        ({"turns_a_day": 2}, "bot_day: 2 of at most 2"),
        ({"turns_a_day": 3}, ""),
        ({"tokens_a_day": 200}, "bot_day: 200 of at most 200"),
        ({"tokens_a_day": 201}, ""),
        ({"money_a_day": 1.0}, "bot_day: 1 of at most 1"),
        ({"money_a_day": 1.25}, ""),
    ],
)
async def test_the_bots_day_quota_counts_all_people_in_all_chats(
    folder: Path, boxes: BoxCache, turn: dict[str, float], refusal: str
) -> None:
    async with bot_with(folder, boxes, **turn) as bot:
        await used(bot, GROUP, "lin")
        await used(bot, LIN, "mei")
        assert await reached(bot, ChatKey.parse("fake-group_4"), "rex") == refusal


@pytest.mark.parametrize(
    ("turn", "refusal"),
    [
        ({"chat_turns_a_day": 1}, "chat_day: 1 of at most 1"),
        ({"chat_tokens_a_day": 100}, "chat_day: 100 of at most 100"),
        ({"chat_money_a_day": 0.5}, "chat_day: 0.5 of at most 0.5"),
    ],
)
async def test_a_chats_day_quota_counts_only_that_chat(
    folder: Path, boxes: BoxCache, turn: dict[str, float], refusal: str
) -> None:
    async with bot_with(folder, boxes, **turn) as bot:
        await used(bot, GROUP, "mei")
        assert await reached(bot, GROUP, "lin") == refusal
        assert await reached(bot, LIN, "mei") == ""


@pytest.mark.parametrize(
    ("turn", "refusal"),
    [
        ({"user_turns_a_day": 1}, "user_day: 1 of at most 1"),
        ({"user_tokens_a_day": 100}, "user_day: 100 of at most 100"),
        ({"user_money_a_day": 0.5}, "user_day: 0.5 of at most 0.5"),
    ],
)
async def test_a_persons_day_quota_counts_that_person_in_every_chat(
    folder: Path, boxes: BoxCache, turn: dict[str, float], refusal: str
) -> None:
    async with bot_with(folder, boxes, **turn) as bot:
        await used(bot, LIN, "lin")
        assert await reached(bot, GROUP, "lin") == refusal
        assert await reached(bot, GROUP, "mei") == ""
        assert await reached(bot, GROUP, "") == "", (
            "a turn without an asking person counts for no person"
        )


async def test_each_day_quota_counts_the_last_24_hours(folder: Path, boxes: BoxCache) -> None:
    quotas = {"turns_a_day": 1, "chat_turns_a_day": 1, "user_turns_a_day": 1}
    async with bot_with(folder, boxes, **quotas) as bot:
        await used(bot, ago_s=DAY_S + 60)
        assert await reached(bot) == ""
        assert [
            (await quota_of_bot(bot.services)).used.turns,
            (await quota_of_chat(bot.services, GROUP)).used.turns,
            (await quota_of_person(bot.services, GROUP, "lin")).used.turns,
        ] == [0, 0, 0]
        await used(bot, ago_s=DAY_S - 60)
        assert await reached(bot) == "chat_day: 1 of at most 1"


async def test_a_person_is_the_same_through_every_account_of_a_platform(
    folder: Path, boxes: BoxCache
) -> None:
    """The same id on another platform belongs to another person."""
    async with bot_with(folder, boxes, user_turns_a_day=9) as bot:
        second = await bot.store.accounts.bind("fake", "second")
        await bot.store.accounts.bind("pigeon", "bot")
        await used(bot, ChatKey.parse("fake-group_1"))
        await used(bot, ChatKey.parse(f"{second}-group_1"))
        await used(bot, ChatKey.parse("pigeon-group_1"))
        account = await quota_of_person(bot.services, GROUP, "lin")
        assert (account.whose, account.used.turns) == ("user", 2)
        # The web page has no account, so only its own chats count for a person there.
        page = ChatKey.parse("web-private_lin")
        await used(bot, page)
        assert (await quota_of_person(bot.services, page, "lin")).used.turns == 1


async def test_a_turn_has_the_limits_of_the_chat_then_the_person_then_the_bot(
    folder: Path, boxes: BoxCache
) -> None:
    quotas = {
        f"{whose}{what}_a_day": 5
        for whose in ("", "chat_", "user_")
        for what in ("turns", "tokens", "money")
    }
    async with bot_with(folder, boxes, **quotas) as bot:
        assert await kinds(bot) == ["chat_day"] * 3 + ["user_day"] * 3 + ["bot_day"] * 3
        assert await kinds(bot, user="") == ["chat_day"] * 3 + ["bot_day"] * 3
    async with bot_with(folder / "none", boxes) as bot:
        assert await kinds(bot) == []


async def test_without_a_quota_the_database_is_not_read(folder: Path, boxes: BoxCache) -> None:
    async with bot_with(folder, boxes) as bot:
        ports = replace(bot.services, store=None)  # type: ignore[arg-type]
        assert await day_limits(ports, GROUP, "lin") == []


async def test_a_quota_of_one_person_does_not_limit_others(folder: Path, boxes: BoxCache) -> None:
    conduct = '[people."fake:mei".quota]\nturns = 1\n'
    async with bot_with(folder, boxes, conduct) as bot:
        assert await kinds(bot, user="lin") == []
        assert await kinds(bot, user="mei") == ["user_day"]
        assert (await quota_of_person(bot.services, GROUP, "mei")).quota.turns == 1
        assert (await quota_of_person(bot.services, GROUP, "lin")).quota.turns == 0


async def test_a_thread_counts_with_its_chat_unless_it_has_its_own_quota(
    folder: Path, boxes: BoxCache
) -> None:
    own, other = ChatKey.parse(f"{GROUP}#own"), ChatKey.parse(f"{GROUP}#other")
    conduct = (
        f'[chats."{GROUP}"]\nchat_quota = {{ turns = 7 }}\n'
        f'[chats."{own}"]\nchat_quota = {{ money = 2.0 }}\n'
        f'[chats."{other}"]\nmode = "tools"\n'
    )
    async with bot_with(folder, boxes, conduct) as bot:
        for chat in (GROUP, own, other):
            await used(bot, chat)
        accounts = [await quota_of_chat(bot.services, chat) for chat in (GROUP, own, other)]
        assert [each.used.turns for each in accounts] == [3, 1, 3]
        assert [each.whose for each in accounts] == ["chat"] * 3
        assert accounts[1].quota == Quota(turns=7, tokens=0, money=2.0)


async def test_costs_during_a_turn_count_towards_the_day_quota(
    folder: Path, boxes: BoxCache
) -> None:
    async with bot_with(folder, boxes, money_a_day=1.0) as bot:
        await used(bot, cost=0.75)
        limits = Limits(await day_limits(bot.services, GROUP, "lin"))
        limits.check()
        limits.spend(RequestUsage(prompt_tokens=1, completion_tokens=1), 0.25)
        with pytest.raises(LimitExceeded) as caught:
            limits.check()
        assert (caught.value.kind, caught.value.value, caught.value.limit) == ("bot_day", 1.0, 1.0)
