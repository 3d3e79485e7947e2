"""An operator is told once that something is wrong, and once that it is over, also across restarts
and with a receiver that does not answer."""

import hashlib
import hmac
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path

import pytest
from loguru import logger

from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.operator.alerts.alert import Alert, AlertKind, Condition, ConditionState
from nekro_core.operator.alerts.book import AlertBook
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.operator.alerts.targets import WebhookTarget, alert_text
from nekro_core.operator.alerts.watch import AlertWatch
from nekro_core.store import Store
from tests.peers.webhook import WebhookReceiver

DISK = "Alert: only 12 MB are free on the disk of the data folder; 1000 MB are wanted."


class Told:
    """A target that keeps what it was told. While it has a ``problem``, it takes nothing."""

    def __init__(self, name: str = "ops") -> None:
        self.name = name
        self.problem = ""
        self.said: list[str] = []

    async def tell(self, alert: Alert) -> str:
        if not self.problem:
            self.said.append(alert_text(alert, Catalogue.load(), "en"))
        return self.problem


class Disk:
    """A check of a disk. Its result is what the test sets."""

    def __init__(self) -> None:
        self.state = ConditionState.FINE
        self.fault: Exception | None = None

    async def __call__(self, _: Collection[str]) -> Sequence[Condition]:
        if self.fault is not None:
            raise self.fault
        facts = {"free": "12", "wanted": "1000"}
        return [Condition(subject="data", state=self.state, facts=facts)]


class Operators:
    """A watch of one disk, its store and its targets."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.disk = Disk()
        self.targets = [Told()]
        self.now = 1_000_000.0
        self.watch: AlertWatch

    async def start(self) -> None:
        """Start the bot, or start it again."""
        book = AlertBook(self.store.waiting)
        await book.load()
        checks = {AlertKind.DISK: self.disk}
        self.watch = AlertWatch(
            book, checks, lambda: self.targets, AlertSettings(), lambda: self.now
        )

    async def look(self, state: ConditionState | None = None) -> list[str]:
        """Look once, and return everything that the first target was told."""
        self.disk.state = state or self.disk.state
        await self.watch.look()
        return self.targets[0].said


@pytest.fixture
async def operators(tmp_path: Path) -> AsyncIterator[Operators]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        found = Operators(store)
        await found.start()
        yield found


WRONG, FINE, UNKNOWN = ConditionState.WRONG, ConditionState.FINE, ConditionState.UNKNOWN
OVER = "Over: there is enough free space on the disk of the data folder again."


async def test_operators_are_told_once_that_something_is_wrong_and_once_that_it_is_over(
    operators: Operators,
) -> None:
    assert await operators.look(FINE) == []
    for _ in range(3):
        assert await operators.look(WRONG) == [DISK]
    assert operators.watch.counts() == {"disk": 1}
    for _ in range(3):
        assert await operators.look(FINE) == [DISK, OVER]
    assert operators.watch.counts() == {}
    assert await operators.look(WRONG) == [DISK, OVER, DISK]


async def test_a_restart_neither_repeats_nor_forgets_an_alert(operators: Operators) -> None:
    await operators.look(WRONG)
    await operators.start()
    assert await operators.look(WRONG) == [DISK]
    await operators.start()
    assert await operators.look(FINE) == [DISK, OVER]
    await operators.start()
    assert await operators.look(FINE) == [DISK, OVER]


async def test_a_check_that_fails_or_has_no_result_changes_no_alert(operators: Operators) -> None:
    assert await operators.look(UNKNOWN) == []
    await operators.look(WRONG)
    assert await operators.look(UNKNOWN) == [DISK]
    operators.disk.fault = OSError("the disk does not answer")
    assert await operators.look() == [DISK]
    operators.disk.fault = None
    assert await operators.look(FINE) == [DISK, OVER]


async def test_a_target_that_refuses_an_alert_is_told_later_and_delays_no_other(
    operators: Operators,
) -> None:
    silent = Told("silent")
    silent.problem = "the server answered 503"
    operators.targets.append(silent)
    assert await operators.look(WRONG) == [DISK]
    assert silent.said == []
    silent.problem = ""
    assert await operators.look() == [DISK]
    assert silent.said == [DISK]


async def test_an_alert_that_was_over_before_a_target_could_be_told_is_not_told_to_it(
    operators: Operators,
) -> None:
    silent = Told("silent")
    silent.problem = "no answer"
    operators.targets.append(silent)
    await operators.look(WRONG)
    assert await operators.look(FINE) == [DISK, OVER]
    silent.problem = ""
    await operators.look(FINE)
    assert silent.said == []


async def test_a_target_that_does_not_answer_is_tried_less_often_and_told_as_soon_as_it_answers(
    operators: Operators,
) -> None:
    operators.targets[0].problem = "no answer"
    lines: list[str] = []
    sink = logger.add(lambda line: lines.append(str(line)), level="ERROR")
    try:
        for _ in range(30):
            await operators.look(WRONG)
    finally:
        logger.remove(sink)
    assert len([line for line in lines if "was not told of the alert disk:data" in line]) == 1
    operators.targets[0].problem = ""
    for _ in range(60):
        await operators.look(WRONG)
    assert operators.targets[0].said == [DISK], "something is still wrong"


async def test_a_target_that_does_not_answer_for_long_is_never_told_that_an_alert_is_over(
    operators: Operators,
) -> None:
    await operators.look(WRONG)
    operators.targets[0].problem = "no answer"
    for _ in range(30):
        await operators.look(FINE)
    operators.targets[0].problem = ""
    for _ in range(70):
        assert await operators.look(FINE) == [DISK]


async def test_an_alert_that_begins_again_before_a_target_heard_of_its_end_is_not_told_twice(
    operators: Operators,
) -> None:
    told = operators.targets[0]
    await operators.look(WRONG)
    told.problem = "no answer"
    await operators.look(FINE)
    told.problem = ""
    assert await operators.look(WRONG) == [DISK]


async def test_no_alert_stays_stored_for_a_target_that_the_operator_removed(
    operators: Operators,
) -> None:
    await operators.look(WRONG)
    operators.targets = []
    operators.disk.state = FINE
    await operators.watch.look()
    assert await operators.store.waiting.all("alert") == []


async def test_a_webhook_gets_signed_json_from_an_address_that_the_operator_allows(
    operators: Operators,
) -> None:
    async with WebhookReceiver() as receiver, Fetcher(MediaSettings()) as fetcher:
        settings = AlertSettings.model_validate(
            {
                "webhook_url": receiver.url,
                "webhook_secret": "a shared secret",
                "private_hosts": [receiver.host],
            }
        )

        def words(alert: Alert) -> str:
            return alert_text(alert, Catalogue.load(), "en")

        hook = WebhookTarget(settings, fetcher, words, lambda: operators.now)
        operators.targets = [hook]  # type: ignore[list-item]
        operators.disk.state = WRONG
        await operators.watch.look()
        operators.now += 60
        operators.disk.state = FINE
        await operators.watch.look()
        assert receiver.told == [
            {
                "state": "wrong",
                "kind": "disk",
                "subject": "data",
                "text": DISK,
                "facts": {"free": "12", "wanted": "1000"},
                "since": 1_000_000.0,
                "over": None,
            },
            {
                "state": "over",
                "kind": "disk",
                "subject": "data",
                "text": OVER,
                "facts": {"free": "12", "wanted": "1000"},
                "since": 1_000_000.0,
                "over": 1_000_060.0,
            },
        ]
        first = receiver.requests[0]
        assert first.headers["x-nekro-timestamp"] == "1000000"
        signed = b"1000000." + first.body
        expected = hmac.new(b"a shared secret", signed, hashlib.sha256).hexdigest()
        assert first.headers["x-nekro-signature"] == f"sha256={expected}"


@pytest.mark.parametrize(
    ("allowed", "status", "location", "problem"),
    [
        (False, 204, "", "not a public address"),
        (True, 500, "", "the server answered 500"),
        (True, 307, "http://127.0.0.1:9/other", "redirects"),
    ],
)
async def test_the_reason_why_a_webhook_was_not_told_is_returned(
    operators: Operators, allowed: bool, status: int, location: str, problem: str
) -> None:
    async with WebhookReceiver() as receiver, Fetcher(MediaSettings()) as fetcher:
        receiver.status, receiver.location = status, location
        hosts = [receiver.host] if allowed else []
        settings = AlertSettings.model_validate(
            {"webhook_url": receiver.url, "private_hosts": hosts}
        )
        hook = WebhookTarget(settings, fetcher, lambda _: "words", lambda: operators.now)
        alert = Alert(kind=AlertKind.CRASH, subject="bot", facts={}, since=1.0)
        assert problem in await hook.tell(alert)
        assert len(receiver.requests) == (1 if allowed else 0)
        assert all("x-nekro-signature" not in each.headers for each in receiver.requests)
