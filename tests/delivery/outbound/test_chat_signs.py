"""The typing state is repeated while turns work; refusals, silence and faults of a platform do not
reach the turn."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import anyio
import pytest

from nekro_core.chat import ChatKey
from nekro_core.delivery.adapter import Capabilities
from nekro_core.delivery.errors import SignRefused
from nekro_core.delivery.outbound.chat_signs import LEAST_PAUSE_S, ChatSigns
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.policy.overrides import ChatOverrides
from tests.delivery.conftest import GROUP, OTHER
from tests.delivery.fakes import FakeAdapter


class SigningAdapter(FakeAdapter):
    """A platform that shows typing states and reactions. ``error`` is raised by each call. If it is
    ``silent``, no call ends before ``released`` is set, not even at its time-out."""

    def __init__(self, typing_s: float | None = 2.6) -> None:
        super().__init__(text_length=4000)
        self._capabilities = replace(self._capabilities, typing_s=typing_s, reactions=True)
        self.typed: list[tuple[ChatKey, bool]] = []
        self.times: list[float] = []
        self.reactions: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.silent = False
        self.released = anyio.Event()

    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        self.typed.append((chat_key, typing))
        self.times.append(anyio.current_time())
        await self._answer()

    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        self.reactions.append((message_id, emoji))
        await self._answer()

    async def _answer(self) -> None:
        if self.silent:
            with anyio.CancelScope(shield=True):
                await self.released.wait()
            await anyio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error

    def pauses(self) -> list[float]:
        """The seconds between the calls for typing."""
        return [later - earlier for earlier, later in pairwise(self.times)]

    async def until(self, count: int) -> None:
        with anyio.fail_after(30):
            while len(self.typed) + len(self.reactions) < count:
                await anyio.sleep(0.005)


@asynccontextmanager
async def signs_of(
    adapter: FakeAdapter, overrides: ChatOverrides | None = None, **settings: object
) -> AsyncIterator[ChatSigns]:
    made = DeliverySettings.model_validate(settings)
    async with ChatSigns(lambda _: adapter, made, lambda _: overrides or ChatOverrides()) as signs:
        yield signs


async def test_typing_is_shown_again_before_it_would_end_and_stops_with_the_turn() -> None:
    adapter = SigningAdapter()
    async with signs_of(adapter) as signs:
        state = signs.typing(GROUP)
        await anyio.sleep(0.05)
        assert adapter.typed == []  # the turn has not asked the model yet
        state.show()
        await adapter.until(3)
        with anyio.fail_after(60):  # on a busy machine, some pauses are longer
            while min(adapter.pauses()) >= 2.6:
                await adapter.until(len(adapter.typed) + 1)
        assert min(adapter.pauses()) >= LEAST_PAUSE_S
        count = len(adapter.typed)
        assert adapter.typed == [(GROUP, True)] * count
        state.end()
        state.end()
        await adapter.until(count + 1)
        assert adapter.typed[-1] == (GROUP, False)
        await anyio.sleep(0.1)
        assert len(adapter.typed) == count + 1


async def test_a_new_step_shows_typing_anew_but_not_more_often_than_every_two_seconds() -> None:
    adapter = SigningAdapter(typing_s=60)
    async with signs_of(adapter) as signs:
        state = signs.typing(GROUP)
        state.show()
        await adapter.until(1)
        for _ in range(50):
            state.show()
            await anyio.sleep(0.01)
        await adapter.until(2)
        assert min(adapter.pauses()) >= LEAST_PAUSE_S
        state.end()


async def test_two_chats_and_two_turns_of_a_chat_do_not_end_each_others_typing_state() -> None:
    adapter = SigningAdapter(typing_s=60)
    async with signs_of(adapter) as signs:
        first, second, other = signs.typing(GROUP), signs.typing(GROUP), signs.typing(OTHER)
        first.show()
        other.show()
        await adapter.until(2)
        second.show()
        first.end()
        await anyio.sleep(0.1)
        assert (GROUP, False) not in adapter.typed
        second.end()
        await adapter.until(3)
        assert adapter.typed[2:] == [(GROUP, False)]
        first.show()  # a new turn begins at the moment in which the old one ends
        await adapter.until(4)
        assert adapter.typed[3] == (GROUP, True)


async def test_what_a_platform_refused_in_a_chat_is_not_asked_for_there_again() -> None:
    adapter = SigningAdapter()
    adapter.error = SignRefused("not in this chat")
    async with signs_of(adapter, seen_emoji="👀") as signs:
        for number in range(3):
            state = signs.typing(GROUP)
            state.show()
            signs.seen(GROUP, f"m{number}")
            await anyio.sleep(0.05)
            state.end()
        assert adapter.typed == [(GROUP, True)]
        assert adapter.reactions == [("m0", "👀")]
        adapter.error = None
        signs.seen(OTHER, "m9")
        await adapter.until(3)
        assert adapter.reactions[-1] == ("m9", "👀")  # another chat is asked


async def test_an_offline_account_is_asked_again_at_the_next_regular_time() -> None:
    adapter = SigningAdapter()
    adapter.error = ConnectionError("offline")
    async with signs_of(adapter) as signs:
        state = signs.typing(GROUP)
        state.show()
        await adapter.until(2)
        assert adapter.times[1] - adapter.times[0] >= LEAST_PAUSE_S
        state.end()


async def test_a_platform_without_an_answer_delays_nothing() -> None:
    adapter = SigningAdapter()
    adapter.silent = True
    async with signs_of(adapter, seen_emoji="👀") as signs:
        state = signs.typing(GROUP)
        state.show()
        signs.seen(GROUP, "m1")
        await adapter.until(2)
        state.end()
        # The calls may go on when the signs have begun to end.
        asyncio.get_running_loop().call_soon(adapter.released.set)
    # If the end had waited for the first call, a second call would have ended the typing state.
    assert adapter.typed == [(GROUP, True)]


@pytest.mark.parametrize(
    ("settings", "overrides", "shown"),
    [
        ({"typing": "off"}, ChatOverrides(), []),
        ({"typing": "off"}, ChatOverrides(typing="auto"), [(GROUP, True)]),
        ({}, ChatOverrides(typing="off"), []),
        ({}, ChatOverrides(), [(GROUP, True)]),
    ],
)
async def test_the_operator_switches_typing_off_for_the_bot_or_a_chat(
    settings: dict[str, object], overrides: ChatOverrides, shown: list[object]
) -> None:
    adapter = SigningAdapter()
    async with signs_of(adapter, overrides, **settings) as signs:
        state = signs.typing(GROUP)
        state.show()
        await anyio.sleep(0.1)
        assert adapter.typed == shown


@pytest.mark.parametrize(
    ("settings", "overrides", "reactions"),
    [
        ({}, ChatOverrides(), []),
        ({"seen_emoji": " 👀 "}, ChatOverrides(), [("m1", "👀")]),
        ({"seen_emoji": "👀"}, ChatOverrides(seen_emoji=""), []),
        ({}, ChatOverrides(seen_emoji="289"), [("m1", "289")]),
    ],
)
async def test_the_operator_chooses_the_reaction_for_the_bot_or_a_chat(
    settings: dict[str, object], overrides: ChatOverrides, reactions: list[object]
) -> None:
    adapter = SigningAdapter()
    async with signs_of(adapter, overrides, **settings) as signs:
        signs.seen(GROUP, "m1")
        signs.seen(GROUP, "")  # a message without an id, for example of a plugin
        await anyio.sleep(0.1)
        assert adapter.reactions == reactions


async def test_a_platform_that_shows_neither_typing_nor_reactions_is_not_asked() -> None:
    async with signs_of(FakeAdapter(), seen_emoji="👀") as signs:
        state = signs.typing(GROUP)
        state.show()
        signs.seen(GROUP, "m1")
        await anyio.sleep(0.05)
        state.end()


class BrokenAdapter(SigningAdapter):
    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        raise KeyError(chat_key)


async def test_a_fault_of_an_adapter_ends_no_other_work() -> None:
    adapter = BrokenAdapter()
    async with signs_of(adapter, seen_emoji="👀") as signs:
        state = signs.typing(GROUP)
        state.show()
        signs.seen(GROUP, "m1")
        await anyio.sleep(0.05)
        state.end()
        state.show()
        state.end()
