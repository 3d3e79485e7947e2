"""If an adapter breaks a promise of the contract, the suite fails. This is tested for each
promise."""

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from nekro_core.chat import (
    ChatKey,
    ChatMessage,
    Delivery,
    DeliveryState,
    Image,
    Mention,
    Notice,
    Receipt,
    Sender,
    Text,
    Voice,
    plain_text,
)
from nekro_core.delivery.adapter import Capabilities, UncertainDelivery
from nekro_core.delivery.adapter_manifest import AdapterManifest, ManifestError
from nekro_core.delivery.errors import SignRefused
from nekro_core.delivery.platforms.contract import (
    AccountState,
    AccountStatus,
    ConnectionHint,
    TrafficCount,
)
from nekro_core.delivery.platforms.errors import InvalidAccountSettings, UnknownAccount
from nekro_core.testing import adapter_contract
from nekro_core.testing.adapter_contract import AdapterContract, adapter_manifest
from tests.delivery.fakes import message

GROUP = ChatKey.parse("kind-group_30003")
SENT, REJECTED, UNKNOWN = DeliveryState.SENT, DeliveryState.REJECTED, DeliveryState.UNKNOWN
MANIFEST = AdapterManifest(
    name="kind",
    folder=Path("kind"),
    package="kind",
    capabilities=frozenset({"accounts", "confirm", "edit", "reactions", "typing"}),
)


class KindAccounts:
    """The accounts of `KindAdapter`: one, which may be paused."""

    live = True

    def __init__(self, adapter: "KindAdapter") -> None:
        self.adapter = adapter
        self.fields = {"token": {"title": "Token", "description": "The token of the account."}}

    def form(self) -> dict[str, Any]:
        return {"properties": self.fields}

    def listed(self) -> tuple[AccountStatus, ...]:
        paused = self.adapter.offline
        status = AccountStatus(
            key="bot",
            state=AccountState.PAUSED if paused else AccountState.ONLINE,
            account="bot",
            connected_since=None if paused else 5.0,
            last_event_at=6.0,
            events=TrafficCount(total=self.adapter.heard),
            sends=TrafficCount(total=len(self.adapter.shown)),
        )
        return (status,)

    def connection_hint(self, key: str, address: str) -> ConnectionHint:
        return ConnectionHint(text=f"enter {address}")

    async def add(self, values: Mapping[str, Any]) -> AccountStatus:
        raise InvalidAccountSettings(dict.fromkeys(values, "is not known"))

    async def remove(self, key: str) -> None:
        raise UnknownAccount(key)

    async def pause(self, key: str) -> AccountStatus:
        self.adapter.offline = True
        return self.listed()[0]

    async def resume(self, key: str) -> AccountStatus:
        self.adapter.offline = False
        return self.listed()[0]

    async def wait_until_seen(self, key: str, *, limit_s: float) -> AccountStatus:
        return self.listed()[0]


class KindAdapter:
    """An adapter that keeps every promise. Each test changes the adapter so that it breaks one
    promise."""

    name = "kind"

    def __init__(self) -> None:
        self.can = Capabilities(
            inline=frozenset({Text, Image}),
            alone=frozenset({Voice}),
            edit_every_s=0.0,
            typing_s=5.0,
            reactions=True,
        )
        self.shown: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.refuses = self.silent = self.offline = False
        self.closed = self.heard = 0
        self.managed_accounts: Any = KindAccounts(self)

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        return self.can

    async def send(self, delivery: Delivery) -> Receipt:
        if self.offline:
            return Receipt(state=DeliveryState.PENDING, reason="offline")
        if self.refuses:
            return Receipt(state=REJECTED, reason="muted")
        if any(isinstance(each, Image | Voice) for each in delivery.segments):
            return Receipt(state=REJECTED, reason="no such file")
        message_id = f"m{len(self.shown) + 1}"
        self.shown[message_id] = plain_text(delivery.segments)
        self.keys[delivery.delivery_id] = message_id
        if self.silent:
            with anyio.move_on_after(0.2):
                await anyio.sleep_forever()
            return Receipt(state=UNKNOWN, reason="no answer")
        return Receipt(state=SENT, message_id=message_id)

    async def edit(self, message_id: str, delivery: Delivery) -> Receipt:
        self.shown[message_id] = plain_text(delivery.segments)
        return Receipt(state=SENT, message_id=message_id)

    async def confirm(self, doubt: UncertainDelivery) -> Receipt:
        if self.offline:
            return Receipt(state=DeliveryState.PENDING, reason="offline")
        if message_id := self.keys.get(doubt.delivery.delivery_id):
            return Receipt(state=SENT, message_id=message_id)
        return Receipt(state=REJECTED, reason="it is not there")

    async def show_typing(self, chat_key: ChatKey, *, typing: bool) -> None:
        if self.offline:
            raise ConnectionError("offline")

    async def react(self, chat_key: ChatKey, message_id: str, emoji: str) -> None:
        if self.offline:
            raise ConnectionError("offline")

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        return frozenset({"bot"})

    async def start(self) -> None: ...

    async def aclose(self) -> None:
        self.closed += 1


class Harness:
    chat_key = GROUP

    def __init__(self, adapter: KindAdapter) -> None:
        self.adapter = adapter
        self.inbound: list[ChatMessage] = []

    async def say(self, text: str, *, user: str = "10001", message_id: str = "") -> str:
        self.adapter.heard += 1
        number = str(len(self.inbound) + 1)
        self.inbound.append(message(GROUP, user=user, message_id=number, segments=(Text(text),)))
        return number

    async def received(self, count: int) -> list[ChatMessage]:
        return self.inbound

    async def shown(self, count: int) -> list[str]:
        return [*self.adapter.shown.values()]

    async def refuse_sends(self) -> None:
        self.adapter.refuses = True

    async def go_silent(self) -> None:
        self.adapter.silent = True

    async def disconnect(self) -> None:
        self.adapter.offline = True


class TestKind(AdapterContract):
    manifest = MANIFEST

    @pytest.fixture
    def harness(self) -> Harness:
        return Harness(KindAdapter())


Break = Callable[[Harness], None]


def changed(**fields: Any) -> Break:
    """Replace methods or attributes of the adapter."""

    def apply(harness: Harness) -> None:
        for name, value in fields.items():
            setattr(harness.adapter, name, value)

    return apply


def without(method: str) -> Break:
    """Remove a method in a subclass: Python 3.12 looks for a protocol's methods in the class."""

    def apply(harness: Harness) -> None:
        kind = type(harness.adapter)
        harness.adapter.__class__ = type(kind.__name__, (kind,), {method: None})

    return apply


def always(state: DeliveryState, **more: str) -> Callable[[Delivery], Awaitable[Receipt]]:
    async def send(_: Delivery) -> Receipt:
        return Receipt(state=state, **more)

    return send


def capable(**fields: Any) -> Break:
    def apply(harness: Harness) -> None:
        harness.adapter.can = replace(harness.adapter.can, **fields)

    return apply


def hands_over(change: Callable[[list[ChatMessage]], Iterable[ChatMessage]]) -> Break:
    """Change the messages that the adapter hands to the bot."""

    def apply(harness: Harness) -> None:
        async def received(count: int) -> list[ChatMessage]:
            return [*change(harness.inbound)]

        harness.received = received

    return apply


def each(**fields: Any) -> Break:
    return hands_over(lambda said: [structs.replace(one, **fields) for one in said])


def escaped(harness: Harness) -> None:
    async def send(delivery: Delivery) -> Receipt:
        harness.adapter.shown["m1"] = plain_text(delivery.segments).replace("<", "&lt;")
        return Receipt(state=SENT, message_id="m1")

    harness.adapter.send = send


def adds_edits(harness: Harness) -> None:
    async def edit(message_id: str, delivery: Delivery) -> Receipt:
        harness.adapter.shown[f"e{len(harness.adapter.shown)}"] = plain_text(delivery.segments)
        return Receipt(state=SENT, message_id=message_id)

    harness.adapter.edit = edit


def accounts(**fields: Any) -> Break:
    """Replace methods or attributes of the adapter's accounts."""

    def apply(harness: Harness) -> None:
        for name, value in fields.items():
            setattr(harness.adapter.managed_accounts, name, value)

    return apply


def never_pauses(harness: Harness) -> None:
    listed = harness.adapter.managed_accounts.listed

    async def pause(_: str) -> AccountStatus:
        status: AccountStatus = listed()[0]
        return replace(status, state=AccountState.PAUSED, connected_since=None)

    harness.adapter.managed_accounts.pause = pause


def never_resumes(harness: Harness) -> None:
    async def resume(_: str) -> None: ...

    harness.adapter.managed_accounts.resume = resume


def counts_nothing(harness: Harness) -> None:
    shown = harness.adapter.managed_accounts.listed

    def listed() -> tuple[AccountStatus, ...]:
        return tuple(replace(each, events=TrafficCount()) for each in shown())

    harness.adapter.managed_accounts.listed = listed


async def accepts_anything(_: Mapping[str, Any]) -> None: ...


async def shows_the_value(values: Mapping[str, Any]) -> None:
    raise InvalidAccountSettings({"settings": f"{values} cannot be used"})


def shields(harness: Harness) -> None:
    async def send(_: Delivery) -> Receipt:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(adapter_contract.SOON_S + 0.5)
        return Receipt(state=UNKNOWN, reason="no answer")

    harness.adapter.send = send


def raises(error: Exception) -> Callable[..., Awaitable[Any]]:
    async def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


async def does_nothing(*_: Any, **__: Any) -> None:
    """Ends without an error, also for an account that is offline."""


def closes_once(harness: Harness) -> None:
    async def aclose() -> None:
        harness.adapter.closed += 1
        if harness.adapter.closed > 1:
            raise RuntimeError("closed already")

    harness.adapter.aclose = aclose


async def no_accounts(_: ChatKey) -> frozenset[str]:
    return frozenset()


async def confirms_all(doubt: UncertainDelivery) -> Receipt:
    return Receipt(state=SENT, message_id="m9")


async def confirms_another(doubt: UncertainDelivery) -> Receipt:
    return Receipt(state=SENT, message_id="m1")


async def finds_nothing(doubt: UncertainDelivery) -> Receipt:
    return Receipt(state=UNKNOWN, reason="this platform cannot tell")


BROKEN: dict[str, list[Break]] = {
    "test_has_a_name_that_can_stand_in_a_chat_key": [changed(name="a b"), changed(name="other")],
    "test_does_what_its_manifest_says": [without("edit"), changed(name="other")],
    "test_no_type_is_both_inline_and_alone": [
        capable(inline=frozenset({Image}), alone=frozenset()),
        capable(alone=frozenset({Image})),
        capable(inline=frozenset({Text, Notice})),
        capable(text_length=0),
        capable(images_per_call=0),
    ],
    "test_what_people_say_arrives_in_order_in_the_chats_key": [
        hands_over(lambda said: said[::-1]),
        hands_over(lambda said: said[:-1]),
        hands_over(lambda said: [*said, said[0]]),
        each(chat_key=ChatKey.parse("kind-private_10001")),
        each(message_id="1"),
        each(time=0.0),
        each(sender=Sender("", "Nobody")),
    ],
    "test_hostile_text_is_only_text": [
        each(segments=(Mention("all"),)),
        each(segments=()),
    ],
    "test_a_send_is_reported_as_sent_when_people_see_it": [
        changed(send=always(SENT, message_id="m1")),
        changed(send=always(SENT)),
        changed(send=always(UNKNOWN, reason="perhaps")),
    ],
    "test_platform_markup_in_a_text_is_only_characters": [escaped],
    "test_an_edited_message_is_seen_as_it_is_now": [adds_edits, capable(edit_every_s=None)],
    "test_the_typing_state_can_be_shown_and_ended_at_any_time": [
        without("show_typing"),
        capable(typing_s=0.0),
        changed(show_typing=raises(SignRefused("not here"))),
        changed(show_typing=does_nothing),
    ],
    "test_a_reaction_can_be_added_twice": [
        without("react"),
        changed(react=raises(SignRefused("not here"))),
        changed(react=does_nothing),
    ],
    "test_a_refused_send_is_rejected_with_its_reason": [
        changed(send=always(REJECTED)),
        changed(send=always(UNKNOWN, reason="an error")),
        changed(send=raises(OSError("muted"))),
    ],
    "test_no_answer_is_unknown": [
        changed(send=always(REJECTED, reason="timed out")),
        changed(send=always(UNKNOWN)),
        changed(send=raises(TimeoutError())),
        changed(send=lambda _: anyio.sleep_forever()),
    ],
    "test_an_uncertain_send_can_be_looked_up": [
        changed(confirm=confirms_all),
        changed(confirm=confirms_another),
        changed(confirm=finds_nothing),
        changed(confirm=raises(OSError("gone"))),
    ],
    "test_a_send_of_an_offline_account_makes_no_call": [
        changed(send=always(REJECTED, reason="offline")),
        changed(send=always(DeliveryState.PENDING)),
        changed(send=raises(ConnectionError("offline"))),
    ],
    "test_a_medium_that_is_not_there_is_rejected": [
        changed(send=always(SENT, message_id="m1")),
        changed(send=raises(FileNotFoundError("all.png"))),
    ],
    "test_the_form_of_an_account_explains_its_fields": [
        accounts(fields={}),
        accounts(fields={"token": {"title": "Token"}}),
    ],
    "test_an_account_shows_its_state_and_counts_what_comes_and_goes": [counts_nothing],
    "test_a_paused_account_is_silent_until_it_is_resumed": [never_pauses, never_resumes],
    "test_impossible_account_settings_are_refused": [
        accounts(add=accepts_anything),
        accounts(add=shows_the_value),
        accounts(remove=accepts_anything),
    ],
    "test_own_accounts_are_known": [changed(own_accounts=no_accounts)],
    "test_a_cancelled_send_ends_at_once": [shields],
    "test_closing_twice_is_fine": [closes_once],
}
BROKEN_PROMISES = (
    AssertionError, TimeoutError, OSError, RuntimeError, ValueError, SignRefused,
    pytest.fail.Exception,
)  # fmt: skip
CASES = [
    pytest.param(promise, broken, id=f"{promise.removeprefix('test_')}-{number}")
    for promise, several in BROKEN.items()
    for number, broken in enumerate(several)
]


@pytest.mark.parametrize(("promise", "broken"), CASES)
async def test_a_broken_promise_is_caught(
    promise: str, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter_contract, "LIMIT_S", 1.0)
    monkeypatch.setattr(adapter_contract, "SOON_S", 0.5)
    harness = Harness(KindAdapter())
    broken(harness)
    with pytest.raises(BROKEN_PROMISES):
        await judge(promise, harness)


async def judge(promise: str, harness: Harness) -> None:
    test = getattr(TestKind(), promise)
    if iscoroutinefunction(test):
        await test(harness)
    else:
        test(harness)


def test_each_promise_has_an_adapter_that_breaks_it() -> None:
    assert {name for name in vars(AdapterContract) if name.startswith("test_")} == BROKEN.keys()


def test_the_error_of_a_suite_without_a_harness_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from nekro_core.testing.adapter_contract import AdapterContract\n"
        "class TestIt(AdapterContract): ..."
    )
    done = run_pytest(tmp_path, "-k", "own_accounts")
    assert done.returncode == 1
    assert "give the suite a fixture named harness: an AdapterHarness" in done.stdout


ONLY_NAME = """
import pytest
from nekro_core.testing.adapter_contract import AdapterContract

class Harness:
    class adapter:
        name = "slack"

        async def own_accounts(chat_key): return frozenset()

    chat_key = None

class TestIt(AdapterContract):
    @pytest.fixture
    def harness(self): return Harness()
"""


def test_a_failed_promise_is_shown_with_its_values(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(ONLY_NAME)
    done = run_pytest(tmp_path, "-k", "own_accounts")
    assert done.returncode == 1
    assert "assert frozenset()" in done.stdout, done.stdout


def run_pytest(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest as an author would, with the plugin line of the author's ``pytest.ini``."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p nekro_core.testing\n")
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(
        [*command, "-o", "anyio_mode=auto"], cwd=folder, check=False, capture_output=True, text=True
    )


def test_the_name_is_required_if_a_manifest_has_several_adapters() -> None:
    assert adapter_manifest(Path("adapters/mail")).name == "mail"
    assert adapter_manifest(Path("adapters/uniseg"), "kook").settings == ("kaiheila_",)
    with pytest.raises(ManifestError, match=r"names telegram, discord, .*: say which one, not ''"):
        adapter_manifest(Path("adapters/uniseg"))
