"""Computes quotas: how much a person, a chat and the whole bot may use in 24 hours, and how much
they have used."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from nekro_core.chat import ChatKey
from nekro_core.policy import Quota, without_thread
from nekro_core.policy.limits import DAY, Limit, Measure, UsageLimit
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.policy.settings import PolicyDefaults
from nekro_core.store import Store, Usage

DAY_S = 86_400.0
"""The period that a quota counts, in seconds."""


class QuotaSources(Protocol):
    """The objects from which quotas and their usage are read."""

    @property
    def store(self) -> Store:
        """The store, with past turns and the bot's accounts."""

    @property
    def policies(self) -> PolicyResolver:
        """The resolver, with the quotas of chats and persons."""

    @property
    def settings(self) -> PolicyDefaults:
        """The settings, with the quota of the bot."""

    @property
    def wall(self) -> Callable[[], float]:
        """Returns the current time, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUsage:
    """A quota and its usage. ``whose`` says whose quota it is: ``user``, ``chat`` or ``bot``."""

    whose: str
    quota: Quota
    used: Usage

    def measures(self) -> tuple[tuple[Measure, float, float], ...]:
        """Return each measure with the used amount and the limit. 0 means no limit."""
        used, quota = self.used, self.quota
        return (
            (Measure.TURNS, used.turns, quota.turns or 0),
            (Measure.TOKENS, used.tokens, quota.tokens or 0),
            (Measure.MONEY, used.cost, quota.money or 0),
        )

    def limits(self) -> Iterator[Limit]:
        """Yield the limits that this quota sets for a turn."""
        for measure, used, limit in self.measures():
            if limit:
                yield UsageLimit(measure, limit, used, f"{self.whose}{DAY}")


async def quota_of_person(sources: QuotaSources, chat_key: ChatKey, user_id: str) -> QuotaUsage:
    """Get the quota of a person. It counts the person's turns in all chats of all the bot's
    accounts on the platform."""
    adapter = sources.store.accounts.of(chat_key.instance)
    accounts = sources.store.accounts.instances(adapter.adapter).values() if adapter else ()
    return QuotaUsage(
        whose="user",
        quota=sources.policies.person_quota(chat_key, user_id),
        used=await sources.store.turns.usage(
            since=_since(sources), user_id=user_id, instances={*accounts, chat_key.instance}
        ),
    )


async def quota_of_chat(sources: QuotaSources, chat_key: ChatKey) -> QuotaUsage:
    """Get the quota of a chat. What a chat's threads use counts for the chat. Otherwise a person
    could get around the quota by beginning another thread. If the operator has set a quota for a
    thread, the thread is counted separately."""
    own = sources.policies.conduct.book.chats.get(str(chat_key))
    own_quota = own is not None and any(value for _, value in own.chat_quota)
    place = chat_key if own_quota else without_thread(chat_key)
    used = await sources.store.turns.usage(since=_since(sources), chat_key=place)
    return QuotaUsage(whose="chat", quota=sources.policies.of(chat_key).chat_quota, used=used)


async def quota_of_bot(sources: QuotaSources) -> QuotaUsage:
    """Get the quota of the bot. It counts all chats."""
    turn = sources.settings.turn
    return QuotaUsage(
        whose="bot",
        quota=Quota(turns=turn.turns_a_day, tokens=turn.tokens_a_day, money=turn.money_a_day),
        used=await sources.store.turns.usage(since=_since(sources)),
    )


async def day_limits(sources: QuotaSources, chat_key: ChatKey, user_id: str) -> list[Limit]:
    """Return the limits that quotas set for a turn of this person. If no quota is set, the database
    is not read."""
    limits: list[Limit] = []
    has_chat_quota = any(value for _, value in sources.policies.of(chat_key).chat_quota)
    if has_chat_quota:
        limits += (await quota_of_chat(sources, chat_key)).limits()
    if user_id and any(value for _, value in sources.policies.person_quota(chat_key, user_id)):
        limits += (await quota_of_person(sources, chat_key, user_id)).limits()
    turn = sources.settings.turn
    if turn.turns_a_day or turn.tokens_a_day or turn.money_a_day:
        limits += (await quota_of_bot(sources)).limits()
    return limits


def _since(sources: QuotaSources) -> float:
    return sources.wall() - DAY_S
