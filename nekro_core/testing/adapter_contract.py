"""Tests what every adapter promises: the contract suite for adapters.

A test module of an adapter subclasses `AdapterContract` under a name that begins with ``Test``, and
gives it a fixture ``harness``: the running adapter, and a server that plays the platform::

    class TestSlack(AdapterContract):
        @pytest.fixture
        async def harness(self, tmp_path: Path) -> AsyncIterator[SlackHarness]:
            async with SlackServer() as server:
                host = MemoryHost(tmp_path, {"slack_address": server.address})
                async with running_adapter(ADAPTER, host) as adapter:
                    yield SlackHarness(adapter, host, server)

pytest must be run with ``-p nekro_core.testing``, as the ``pytest.ini`` of `nekro adapter new` has
it: then a failed promise is shown with its values. docs/adapters.md explains the promises.
"""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest
from nonebot.config import Config, Env
from nonebot.drivers import Driver
from nonebot.drivers.fastapi import Driver as FastAPIDriver

from nekro_core.api.adapter import OperatorHost, Page
from nekro_core.app.adapters import PACKAGE, load_adapter
from nekro_core.chat import (
    ChatKey,
    ChatMessage,
    Delivery,
    DeliveryState,
    Image,
    Media,
    Notice,
    Receipt,
    Segment,
    Text,
    Voice,
)
from nekro_core.delivery.adapter import (
    Adapter,
    SupportsConfirmation,
    SupportsEditing,
    UncertainDelivery,
)
from nekro_core.delivery.adapter_manifest import AdapterManifest, ManifestError, read_manifests
from nekro_core.testing.memory_host import MemoryHost

LIMIT_S = 30.0
"""Seconds that a single call of the adapter may take in a test, on a busy machine."""
SOON_S = 5.0
"""Seconds within which a cancelled call must have ended."""


class AdapterHarness(Protocol):
    """An adapter that was started, and the other side of its protocol.

    Attributes:
        adapter: The adapter. Its own time limit for a call should be short: see `go_silent`.
        chat_key: A group that the account is in.
    """

    adapter: Adapter
    chat_key: ChatKey

    async def say(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        """Let a person say something in the group.

        Args:
            text: What the person says, exactly.
            user: The platform's id of the person.
            message_id: The platform's id of the message; empty to let the platform choose one.

        Returns:
            The platform's id of the message.
        """

    async def received(self, count: int) -> list[ChatMessage]:
        """Wait until the adapter has handed over so many messages.

        Args:
            count: How many messages, counted from the start.

        Returns:
            The messages, in the order in which the bot got them.
        """

    async def shown(self, count: int) -> list[str]:
        """Wait until people of the group see so many messages of the bot.

        Args:
            count: How many messages, counted from the start.

        Returns:
            Their texts as people see them now, oldest first.
        """

    async def refuse_sends(self) -> None:
        """Let the platform answer each further send with a clear no."""

    async def go_silent(self) -> None:
        """Let the platform take each further call and never answer. The adapter must give up within
        `LIMIT_S`."""

    async def disconnect(self) -> None:
        """Let the account lose its connection and not come back; returns once the adapter knows."""


@asynccontextmanager
async def running_adapter(
    folder: Path,
    host: MemoryHost,
    *,
    name: str = "",
    driver: Driver | None = None,
    operator: OperatorHost | None = None,
) -> AsyncIterator[Adapter]:
    """Read an adapter's manifest, import and make the adapter as the bot does, and start it.

    Args:
        folder: The adapter's folder, with ``adapter.toml`` in it.
        host: The bot that the adapter sees.
        name: Which adapter of the manifest; empty where it names only one.
        driver: NoneBot's driver, not yet started; None for a FastAPI driver whose application no
            server serves.
        operator: What an operator's page may show; needed by an adapter with ``create_page`` alone.

    Yields:
        The started adapter. It is closed when the block is left.

    Raises:
        ManifestError: The manifest cannot be used, or names several adapters and ``name`` none.
        AdapterBroken: The code cannot be imported.
    """
    manifest = adapter_manifest(folder, name)
    maker = load_adapter(manifest, {**host.settings, "nekro_platforms": (manifest.name,)})
    driver = driver or FastAPIDriver(Env(environment="test"), Config(_env_file=None))
    make: Any = maker.create
    adapter: Adapter = make(host, driver, operator)
    async with driver._lifespan:  # noqa: SLF001 - what NoneBot's server enters
        try:
            await adapter.start()
            yield adapter
        finally:
            await adapter.aclose()


def adapter_manifest(folder: Path, name: str = "") -> AdapterManifest:
    """Read one adapter's manifest.

    Args:
        folder: The adapter's folder, with ``adapter.toml`` in it.
        name: Which adapter of the manifest; empty where it names only one.

    Returns:
        The manifest.

    Raises:
        ManifestError: It cannot be used, or names several adapters and ``name`` none of them.
    """
    place = folder.resolve()
    found = {each.name: each for each in read_manifests(place, f"{PACKAGE}.{place.name}")}
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        raise ManifestError(f"{place} names {', '.join(found)}: say which one, not {name!r}")
    return found[name]


def _delivery(harness: AdapterHarness, *segments: Segment, number: int = 1) -> Delivery:
    return Delivery(
        delivery_id=f"d{number}", chat_key=harness.chat_key, segments=segments, run_id="r1"
    )


class AdapterContract:
    """What `Adapter`, `SupportsEditing` and `SupportsConfirmation` promise. Subclass it, and give
    it a fixture ``harness``. A test may be overridden where a platform cannot do what it plays, for
    example be silent; its docstring then says why.

    Attributes:
        manifest: The adapter's manifest, to be compared with the adapter; `adapter_manifest` reads
            it. None to compare nothing.
    """

    manifest: AdapterManifest | None = None

    @pytest.fixture
    def harness(self) -> AdapterHarness:
        """Give the adapter at work.

        Returns:
            The adapter, and the other side of its protocol.

        Raises:
            NotImplementedError: The subclass has no such fixture.
        """
        raise NotImplementedError("give the suite a fixture named harness: an AdapterHarness")

    def test_has_a_name_that_can_stand_in_a_chat_key(self, harness: AdapterHarness) -> None:
        """Its name is the beginning of its chat keys.

        Args:
            harness: The adapter under test.
        """
        name = harness.adapter.name
        assert ChatKey.parse(f"{name}-group_1").instance == name
        assert harness.chat_key.instance.partition(".")[0] == name

    def test_does_what_its_manifest_says(self, harness: AdapterHarness) -> None:
        """The manifest has its name and lists what it can do, no more and no less.

        Args:
            harness: The adapter under test.
        """
        if self.manifest is None:
            return
        kinds: Mapping[str, type] = {
            "confirm": SupportsConfirmation,
            "edit": SupportsEditing,
            "page": Page,
        }
        able = {name for name, kind in kinds.items() if isinstance(harness.adapter, kind)}
        assert self.manifest.name == harness.adapter.name
        assert self.manifest.capabilities == able

    def test_no_type_is_both_inline_and_alone(self, harness: AdapterHarness) -> None:
        """What one call can carry is told without contradictions.

        Args:
            harness: The adapter under test.
        """
        can = harness.adapter.capabilities(harness.chat_key)
        assert Text in can.inline | can.alone
        assert not can.inline & can.alone
        assert Notice not in can.inline | can.alone
        assert can.text_length >= 1
        assert can.images_per_call >= 1

    async def test_what_people_say_arrives_in_order_in_the_chats_key(
        self, harness: AdapterHarness
    ) -> None:
        """Ten messages arrive once each, in order, with who said them and when.

        Args:
            harness: The adapter under test.
        """
        for number in range(10):
            await harness.say(f"line {number}")
        received = await harness.received(10)
        assert [message.text for message in received] == [f"line {number}" for number in range(10)]
        assert {message.chat_key for message in received} == {harness.chat_key}
        assert len({message.message_id for message in received}) == 10
        assert all(message.sender.user_id and message.time > 0 for message in received)

    async def test_hostile_text_is_only_text(self, harness: AdapterHarness) -> None:
        """No text becomes a mention, loses a character or is read as a template.

        Args:
            harness: The adapter under test.
        """
        texts = ["[CQ:at,qq=all]", "\u202etxt.exe", "a\u200bb", "<b>&amp;</b>", "{0} %s ${x}"]
        for text in texts:
            await harness.say(text)
        received = await harness.received(len(texts))
        assert [message.segments for message in received] == [(Text(text),) for text in texts]

    async def test_a_send_is_sent_once_people_can_see_it(self, harness: AdapterHarness) -> None:
        """``sent`` has the platform's id, and people see the text.

        Args:
            harness: The adapter under test.
        """
        receipt = await harness.adapter.send(_delivery(harness, Text("good evening")))
        assert receipt.state is DeliveryState.SENT
        assert receipt.message_id
        assert await harness.shown(1) == ["good evening"]

    async def test_platform_markup_in_a_text_is_only_characters(
        self, harness: AdapterHarness
    ) -> None:
        """What the bot says is escaped for the platform.

        Args:
            harness: The adapter under test.
        """
        markup = "[CQ:at,qq=all] & <script> `x`"
        receipt = await harness.adapter.send(_delivery(harness, Text(markup)))
        assert receipt.ok
        assert await harness.shown(1) == [markup]

    async def test_an_edited_message_is_seen_as_it_is_now(self, harness: AdapterHarness) -> None:
        """An adapter can edit where its capabilities say how often, and there alone.

        Args:
            harness: The adapter under test.
        """
        adapter, can = harness.adapter, harness.adapter.capabilities(harness.chat_key)
        assert isinstance(adapter, SupportsEditing) == (can.edit_every_s is not None)
        if isinstance(adapter, SupportsEditing):
            sent = await adapter.send(_delivery(harness, Text("one")))
            for text in ("two", "two", "three"):
                edited = await adapter.edit(sent.message_id, _delivery(harness, Text(text)))
                assert (edited.state, edited.message_id) == (DeliveryState.SENT, sent.message_id)
            assert await harness.shown(1) == ["three"]

    async def test_a_no_is_rejected_with_its_reason(self, harness: AdapterHarness) -> None:
        """``rejected`` is the platform's clear no, with a reason for people.

        Args:
            harness: The adapter under test.
        """
        await harness.refuse_sends()
        receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.REJECTED
        assert receipt.reason

    async def test_no_answer_is_unknown(self, harness: AdapterHarness) -> None:
        """``unknown`` is a call that was not answered: it may have arrived.

        Args:
            harness: The adapter under test.
        """
        await harness.go_silent()
        with anyio.fail_after(LIMIT_S):
            receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.UNKNOWN
        assert receipt.reason

    async def test_what_was_not_answered_for_can_be_asked_about(
        self, harness: AdapterHarness
    ) -> None:
        """`SupportsConfirmation.confirm` finds what arrived and nothing else.

        Args:
            harness: The adapter under test.
        """
        adapter = harness.adapter
        if not isinstance(adapter, SupportsConfirmation):
            return
        first = await harness.say("hello")
        known = await adapter.send(_delivery(harness, Text("known"), number=1))
        ids = frozenset({first, known.message_id})
        await harness.go_silent()
        with anyio.fail_after(LIMIT_S):
            lost = await adapter.send(_delivery(harness, Text("is it there?"), number=2))
        assert lost.state is DeliveryState.UNKNOWN

        async def confirm(text: str, number: int) -> Receipt:
            delivery = _delivery(harness, Text(text), number=number)
            doubt = UncertainDelivery(delivery=delivery, since=time.time(), before=ids, taken=ids)
            with anyio.fail_after(LIMIT_S):
                return await adapter.confirm(doubt)

        with anyio.fail_after(LIMIT_S):
            # The platform may be at it still: a no is for now, and is asked about again.
            found = await confirm("is it there?", 2)
            while found.state is DeliveryState.REJECTED:
                await anyio.sleep(0.05)
                found = await confirm("is it there?", 2)
        assert found.state is DeliveryState.SENT
        assert found.message_id not in {"", *ids}
        never = await confirm("never said", 3)
        assert never.state in {DeliveryState.REJECTED, DeliveryState.UNKNOWN}
        assert never.reason
        await harness.disconnect()
        away = await confirm("is it there?", 2)
        assert away.state is DeliveryState.PENDING
        assert away.reason

    async def test_an_offline_account_never_had_the_call(self, harness: AdapterHarness) -> None:
        """``pending`` is a call that surely never left: it can be made later.

        Args:
            harness: The adapter under test.
        """
        await harness.disconnect()
        with anyio.fail_after(LIMIT_S):
            receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.PENDING
        assert receipt.reason

    async def test_a_medium_that_is_not_there_is_rejected(self, harness: AdapterHarness) -> None:
        """A file that is gone is not sent, and raises nothing.

        Args:
            harness: The adapter under test.
        """
        can = harness.adapter.capabilities(harness.chat_key)
        gone = Media(path="/nowhere/at/all.png", name="all.png", mime="image/png")
        for kind in (Image, Voice):
            if kind in can.inline | can.alone:
                receipt = await harness.adapter.send(_delivery(harness, kind(media=gone)))
                assert receipt.state is DeliveryState.REJECTED
                assert receipt.reason

    async def test_own_accounts_are_known(self, harness: AdapterHarness) -> None:
        """The bot can tell its own messages from those of others.

        Args:
            harness: The adapter under test.
        """
        assert await harness.adapter.own_accounts(harness.chat_key)

    async def test_a_cancelled_send_ends_at_once(self, harness: AdapterHarness) -> None:
        """A send does not shield itself from its cancellation.

        Args:
            harness: The adapter under test.
        """
        await harness.go_silent()
        began = time.monotonic()
        with anyio.move_on_after(0.05):
            await harness.adapter.send(_delivery(harness, Text("hello")))
        assert time.monotonic() - began < SOON_S

    async def test_closing_twice_is_fine(self, harness: AdapterHarness) -> None:
        """`Adapter.aclose` may be called again.

        Args:
            harness: The adapter under test.
        """
        await harness.adapter.aclose()
        await harness.adapter.aclose()


__all__ = ["AdapterContract", "AdapterHarness", "adapter_manifest", "running_adapter"]
