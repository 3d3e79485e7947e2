"""Contains the contract suite for adapters, which tests what every adapter must do.

A test module of an adapter subclasses `AdapterContract`. The name of the subclass begins with
``Test``. The subclass has a fixture ``harness``, which returns the running adapter and a server
that simulates the platform::

    class TestSlack(AdapterContract):
        @pytest.fixture
        async def harness(self, tmp_path: Path) -> AsyncIterator[SlackHarness]:
            async with SlackServer() as server:
                host = MemoryHost(tmp_path, {"slack_address": server.address})
                async with running_adapter(ADAPTER, host) as adapter:
                    yield SlackHarness(adapter, host, server)

Run pytest with ``-p nekro_core.testing``, so that a failed assertion is shown with its values. The
``pytest.ini`` that `nekro adapter new` writes has this option. docs/adapters.md explains what an
adapter must do.
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
from nekro_core.app.adapter_directory import PACKAGE
from nekro_core.app.adapters import load_adapter
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
from nekro_core.delivery.errors import SignRefused
from nekro_core.delivery.platforms.contract import (
    AccountState,
    AccountStatus,
    PlatformAccounts,
    SupportsAccounts,
    SupportsRequests,
)
from nekro_core.delivery.platforms.errors import InvalidAccountSettings, UnknownAccount
from nekro_core.delivery.signs import SupportsReactions, SupportsTyping
from nekro_core.testing.memory_host import MemoryHost

LIMIT_S = 30.0
"""Time limit for one call of the adapter in a test, in seconds. It is long enough for a busy
machine."""
SOON_S = 5.0
"""Time limit from the cancellation of a call to its end, in seconds."""


class AdapterHarness(Protocol):
    """A started adapter, and the simulated platform that it is connected to.

    Attributes:
        adapter: The adapter. Give it a short time limit for its own calls (see `go_silent`).
        chat_key: A group that the account is in.
    """

    adapter: Adapter
    chat_key: ChatKey

    async def say(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        """Simulate that a person sends a message to the group.

        Args:
            text: The exact text of the message.
            user: The platform's id of the person.
            message_id: The platform's id of the message; empty to let the platform choose one.

        Returns:
            The platform's id of the message.
        """

    async def received(self, count: int) -> list[ChatMessage]:
        """Wait until the adapter has given ``count`` messages to the bot.

        Args:
            count: How many messages, counted from the start.

        Returns:
            The messages, in the order in which the bot got them.
        """

    async def shown(self, count: int) -> list[str]:
        """Wait until people of the group see ``count`` messages of the bot.

        Args:
            count: How many messages, counted from the start.

        Returns:
            Their texts as people see them now, oldest first.
        """

    async def refuse_sends(self) -> None:
        """Make the platform refuse each further send."""

    async def go_silent(self) -> None:
        """Make the platform accept each further call and never answer. The adapter must stop
        waiting within `LIMIT_S`."""

    async def disconnect(self) -> None:
        """Close the account's connection permanently. Returns when the adapter has noticed this."""


@asynccontextmanager
async def running_adapter(
    folder: Path,
    host: MemoryHost,
    *,
    name: str = "",
    driver: Driver | None = None,
    operator: OperatorHost | None = None,
) -> AsyncIterator[Adapter]:
    """Read an adapter's manifest, import and create the adapter as the bot does, and start it.

    Args:
        folder: The adapter's folder, with ``adapter.toml`` in it.
        host: The `Host` that the adapter gets.
        name: The adapter's name in the manifest; may be empty if the manifest names only one
            adapter.
        driver: NoneBot's driver, not yet started. None creates a FastAPI driver that no server
            serves.
        operator: The operator's interface. Only an adapter with ``create_page`` needs it.

    Yields:
        The started adapter. It is closed when the block is left.

    Raises:
        ManifestError: The manifest cannot be used, or it has no adapter of this ``name``, or it
            names several adapters and ``name`` is empty.
        AdapterBroken: The adapter's code cannot be imported.
    """
    manifest = adapter_manifest(folder, name)
    maker = load_adapter(manifest, {**host.settings, "nekro_platforms": (manifest.name,)})
    driver = driver or FastAPIDriver(Env(environment="test"), Config(_env_file=None))
    make: Any = maker.create
    adapter: Adapter = make(host, driver, operator)
    async with driver._lifespan:  # noqa: SLF001 - NoneBot's server enters it too
        try:
            await adapter.start()
            yield adapter
        finally:
            await adapter.aclose()


def adapter_manifest(folder: Path, name: str = "") -> AdapterManifest:
    """Read one adapter's manifest.

    Args:
        folder: The adapter's folder, with ``adapter.toml`` in it.
        name: The adapter's name in the manifest; may be empty if the manifest names only one
            adapter.

    Returns:
        The manifest.

    Raises:
        ManifestError: The manifest cannot be used, or it has no adapter of this ``name``, or it
            names several adapters and ``name`` is empty.
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


def _online(accounts: PlatformAccounts) -> AccountStatus:
    return next(each for each in accounts.listed() if each.state is AccountState.ONLINE)


class AdapterContract:
    """Tests what `Adapter`, `SupportsEditing`, `SupportsConfirmation` and `SupportsAccounts`
    require. Subclass this class, and give the subclass a fixture ``harness``. If a test needs a
    situation that cannot happen on a platform, for example a call without an answer, override the
    test and say why in its docstring.

    Attributes:
        manifest: The adapter's manifest, as `adapter_manifest` reads it. A test compares the
        manifest with the adapter. If it is None, this test is skipped.
    """

    manifest: AdapterManifest | None = None

    @pytest.fixture
    def harness(self) -> AdapterHarness:
        """The started adapter and its simulated platform. Each subclass defines this fixture.

        Returns:
            The adapter and the simulated platform.

        Raises:
            NotImplementedError: The subclass does not define the fixture.
        """
        raise NotImplementedError("give the suite a fixture named harness: an AdapterHarness")

    def test_has_a_name_that_can_stand_in_a_chat_key(self, harness: AdapterHarness) -> None:
        """The adapter's name is allowed in a chat key, and its chat keys begin with it.

        Args:
            harness: The adapter under test.
        """
        name = harness.adapter.name
        assert ChatKey.parse(f"{name}-group_1").instance == name
        assert harness.chat_key.instance.partition(".")[0] == name

    def test_does_what_its_manifest_says(self, harness: AdapterHarness) -> None:
        """The manifest has the adapter's name, and lists exactly the capabilities that the adapter
        has.

        Args:
            harness: The adapter under test.
        """
        if self.manifest is None:
            return
        kinds: Mapping[str, type] = {
            "accounts": SupportsAccounts,
            "confirm": SupportsConfirmation,
            "edit": SupportsEditing,
            "page": Page,
            "reactions": SupportsReactions,
            "requests": SupportsRequests,
            "typing": SupportsTyping,
        }
        able = {name for name, kind in kinds.items() if isinstance(harness.adapter, kind)}
        assert self.manifest.name == harness.adapter.name
        assert self.manifest.capabilities == able

    def test_no_type_is_both_inline_and_alone(self, harness: AdapterHarness) -> None:
        """The capabilities do not contradict each other: text can be sent, no segment type is in
        both ``inline`` and ``alone``, notices are in neither, and the limits are at least 1.

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
        """Each of ten messages arrives once and in order, with its sender and its time.

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
        """A received text stays one text segment with the same characters, even if it contains
        markup or control characters.

        Args:
            harness: The adapter under test.
        """
        texts = ["[CQ:at,qq=all]", "\u202etxt.exe", "a\u200bb", "<b>&amp;</b>", "{0} %s ${x}"]
        for text in texts:
            await harness.say(text)
        received = await harness.received(len(texts))
        assert [message.segments for message in received] == [(Text(text),) for text in texts]

    async def test_a_send_is_reported_as_sent_when_people_see_it(
        self, harness: AdapterHarness
    ) -> None:
        """A receipt with ``sent`` has the platform's message id, and people see the text.

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
        """Markup in a text of the bot is escaped for the platform.

        Args:
            harness: The adapter under test.
        """
        markup = "[CQ:at,qq=all] & <script> `x`"
        receipt = await harness.adapter.send(_delivery(harness, Text(markup)))
        assert receipt.ok
        assert await harness.shown(1) == [markup]

    async def test_an_edited_message_is_seen_as_it_is_now(self, harness: AdapterHarness) -> None:
        """People see the newest text of an edited message. The adapter can edit if, and only if,
        its capabilities have ``edit_every_s``.

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

    async def test_the_typing_state_can_be_shown_and_ended_at_any_time(
        self, harness: AdapterHarness
    ) -> None:
        """If the capabilities have ``typing_s``, `SupportsTyping.show_typing` works. It may be
        repeated, and may be ended twice. While the account is offline, it raises an error, but not
        `SignRefused` or TimeoutError, so that the bot tries again later.

        Args:
            harness: The adapter under test.
        """
        adapter, can = harness.adapter, harness.adapter.capabilities(harness.chat_key)
        if can.typing_s is None:
            return
        assert isinstance(adapter, SupportsTyping)
        assert can.typing_s >= 1
        await harness.say("hello")
        await harness.received(1)
        with anyio.fail_after(LIMIT_S):
            for typing in (True, True, False, False):
                await adapter.show_typing(harness.chat_key, typing=typing)
        assert (await adapter.send(_delivery(harness, Text("good evening")))).ok
        await harness.disconnect()
        with anyio.fail_after(LIMIT_S), pytest.raises(Exception) as away:  # noqa: PT011
            await adapter.show_typing(harness.chat_key, typing=True)
        assert not isinstance(away.value, SignRefused | TimeoutError)

    async def test_a_reaction_can_be_added_twice(self, harness: AdapterHarness) -> None:
        """If the capabilities have ``reactions``, `SupportsReactions.react` works, also twice for
        the same message. While the account is offline, it raises an error, but not `SignRefused` or
        TimeoutError, so that the bot tries again later.

        Args:
            harness: The adapter under test.
        """
        adapter, can = harness.adapter, harness.adapter.capabilities(harness.chat_key)
        if not can.reactions:
            return
        assert isinstance(adapter, SupportsReactions)
        await harness.say("hello")
        message = (await harness.received(1))[0]
        with anyio.fail_after(LIMIT_S):
            for _ in range(2):
                await adapter.react(harness.chat_key, message.message_id, "👍")
        await harness.disconnect()
        with anyio.fail_after(LIMIT_S), pytest.raises(Exception) as away:  # noqa: PT011
            await adapter.react(harness.chat_key, message.message_id, "👍")
        assert not isinstance(away.value, SignRefused | TimeoutError)

    async def test_a_refused_send_is_rejected_with_its_reason(
        self, harness: AdapterHarness
    ) -> None:
        """If the platform refuses a message, the receipt is ``rejected`` and has a reason for
        people.

        Args:
            harness: The adapter under test.
        """
        await harness.refuse_sends()
        receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.REJECTED
        assert receipt.reason

    async def test_no_answer_is_unknown(self, harness: AdapterHarness) -> None:
        """If the platform does not answer a call, the receipt is ``unknown``, because the message
        may have arrived.

        Args:
            harness: The adapter under test.
        """
        await harness.go_silent()
        with anyio.fail_after(LIMIT_S):
            receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.UNKNOWN
        assert receipt.reason

    async def test_an_uncertain_send_can_be_looked_up(self, harness: AdapterHarness) -> None:
        """`SupportsConfirmation.confirm` finds a message that arrived, finds no message that was
        never sent, and returns ``pending`` while the account is offline.

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
            # The platform may not have finished the call. So ``rejected`` may not be final, and the
            # test asks again.
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

    async def test_a_send_of_an_offline_account_makes_no_call(
        self, harness: AdapterHarness
    ) -> None:
        """If the account is offline, the receipt is ``pending``. It means that the call was
        certainly not made, so the bot can make it later.

        Args:
            harness: The adapter under test.
        """
        await harness.disconnect()
        with anyio.fail_after(LIMIT_S):
            receipt = await harness.adapter.send(_delivery(harness, Text("hello")))
        assert receipt.state is DeliveryState.PENDING
        assert receipt.reason

    def test_the_form_of_an_account_explains_its_fields(self, harness: AdapterHarness) -> None:
        """Each field of `PlatformAccounts.form` has a title and a description for people.

        Args:
            harness: The adapter under test.
        """
        adapter = harness.adapter
        if isinstance(adapter, SupportsAccounts):
            fields = adapter.managed_accounts.form()["properties"]
            assert fields
            for name, field in fields.items():
                assert field.get("title"), name
                assert field.get("description"), name

    async def test_an_account_shows_its_state_and_counts_what_comes_and_goes(
        self, harness: AdapterHarness
    ) -> None:
        """A connected account is ``online``, and its events and sends are counted.

        Args:
            harness: The adapter under test.
        """
        adapter = harness.adapter
        if not isinstance(adapter, SupportsAccounts):
            return
        await harness.say("hello")
        await harness.received(1)
        assert (await adapter.send(_delivery(harness, Text("good evening")))).ok
        status = _online(adapter.managed_accounts)
        assert status.account
        assert status.connected_since is not None
        assert status.last_event_at is not None
        assert status.events.total >= 1
        assert status.sends.total == 1
        assert adapter.managed_accounts.connection_hint(status.key, "http://127.0.0.1:8080").text

    async def test_a_paused_account_is_silent_until_it_is_resumed(
        self, harness: AdapterHarness
    ) -> None:
        """A paused account receives and sends nothing. After `PlatformAccounts.resume` it does
        both.

        Args:
            harness: The adapter under test.
        """
        adapter = harness.adapter
        if not isinstance(adapter, SupportsAccounts) or not adapter.managed_accounts.live:
            return
        await harness.say("before")
        await harness.received(1)
        key = _online(adapter.managed_accounts).key
        with anyio.fail_after(LIMIT_S):
            paused = await adapter.managed_accounts.pause(key)
        assert paused.state is AccountState.PAUSED
        assert paused.connected_since is None
        receipt = await adapter.send(_delivery(harness, Text("are you there?")))
        assert receipt.state is DeliveryState.PENDING
        await adapter.managed_accounts.resume(key)
        seen = await adapter.managed_accounts.wait_until_seen(key, limit_s=LIMIT_S)
        assert seen.state is AccountState.ONLINE
        await harness.say("after")
        count = 2
        while (await harness.received(count))[-1].text != "after":
            # The adapter may also have read the message "before" from the platform's history.
            count += 1
        assert (await adapter.send(_delivery(harness, Text("good evening")))).ok

    async def test_impossible_account_settings_are_refused(self, harness: AdapterHarness) -> None:
        """Settings that cannot be used raise `InvalidAccountSettings` and change nothing. The text
        of the error contains no value of the settings. An account that does not exist raises
        `UnknownAccount`.

        Args:
            harness: The adapter under test.
        """
        adapter = harness.adapter
        if not isinstance(adapter, SupportsAccounts):
            return
        before = {status.key for status in adapter.managed_accounts.listed()}
        nonsense = {"no_such_field": "hunter2 is my password"}
        with pytest.raises(InvalidAccountSettings) as refused:
            await adapter.managed_accounts.add(nonsense)
        assert "hunter2" not in str(refused.value)
        with pytest.raises(UnknownAccount):
            await adapter.managed_accounts.remove("nobody")
        assert {status.key for status in adapter.managed_accounts.listed()} == before

    async def test_a_medium_that_is_not_there_is_rejected(self, harness: AdapterHarness) -> None:
        """If the file of a picture or voice does not exist, the receipt is ``rejected``. Nothing is
        raised.

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
        """The adapter knows its own accounts, so that the bot recognizes its own messages.

        Args:
            harness: The adapter under test.
        """
        assert await harness.adapter.own_accounts(harness.chat_key)

    async def test_a_cancelled_send_ends_at_once(self, harness: AdapterHarness) -> None:
        """A send that is cancelled ends within `SOON_S` seconds, because the adapter does not
        shield it from cancellation.

        Args:
            harness: The adapter under test.
        """
        await harness.go_silent()
        began = time.monotonic()
        with anyio.move_on_after(0.05):
            await harness.adapter.send(_delivery(harness, Text("hello")))
        assert time.monotonic() - began < SOON_S

    async def test_closing_twice_is_fine(self, harness: AdapterHarness) -> None:
        """`Adapter.aclose` may be called twice.

        Args:
            harness: The adapter under test.
        """
        await harness.adapter.aclose()
        await harness.adapter.aclose()


__all__ = ["AdapterContract", "AdapterHarness", "adapter_manifest", "running_adapter"]
