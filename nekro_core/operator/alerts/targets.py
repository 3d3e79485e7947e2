"""Tells operators about alerts: in a chat, or with a signed request to a webhook."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from nekro_core.chat import ChatKey, DeliveryState, Segments, Text
from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.errors import NotFetched, NothingToSend, TooManySends
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import PrivateHost
from nekro_core.operator.alerts.alert import Alert
from nekro_core.operator.alerts.settings import AlertSettings
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.store import StoreError
from nekro_core.system.addresses import Address, is_of_this_machine, is_public

_TOLD = frozenset({DeliveryState.SENT, DeliveryState.PENDING, DeliveryState.UNKNOWN})
"""States of a message after which it is not sent again: the outbox sends a pending one, and an
unknown one may have arrived."""
WEBHOOK = "webhook"
SIGNATURE = "X-Nekro-Signature"
TIMESTAMP = "X-Nekro-Timestamp"


def alert_text(alert: Alert, catalogue: Catalogue, language: str) -> str:
    """Return the sentence that people read about an alert or about its end."""
    key = f"alert.{alert.kind}_over" if alert.over else f"alert.{alert.kind}"
    said = catalogue.say(key, language, **alert.facts)
    if process := alert.facts.get("process"):
        return catalogue.say("alert.of_process", language, process=process, text=said)
    return said


class AlertWords(Protocol):
    """Writes the sentence about an alert."""

    def __call__(self, alert: Alert) -> str:
        """Return the sentence."""


class ChatTarget:
    """Tells a chat.

    Args:
        chat_key: The chat.
        outbox: Sends the message.
        words: Writes it.
        problem: Returns why nothing can be sent to the chat now; empty if something can. It is
            asked first, because the outbox would accept a message for an account that is away, and
            drop it after some minutes. So the chat would count as told and would know nothing.
    """

    def __init__(
        self,
        chat_key: ChatKey,
        outbox: MessageSender,
        words: AlertWords,
        problem: Callable[[ChatKey], str],
    ) -> None:
        self._chat_key = chat_key
        self._outbox = outbox
        self._words = words
        self._problem = problem

    @property
    def name(self) -> str:
        """See `AlertTarget.name`."""
        return f"chat {self._chat_key}"

    async def tell(self, alert: Alert) -> str:
        """See `AlertTarget.tell`."""
        if problem := self._problem(self._chat_key):
            return problem
        said: Segments = (Text(self._words(alert)),)
        try:
            receipts = await self._outbox.send(self._chat_key, said)
        except (NothingToSend, TooManySends, StoreError) as error:
            return str(error)
        return next((each.reason for each in receipts if each.state not in _TOLD), "")


class WebhookTarget:
    """Sends a JSON object to the operator's address. Redirects are not followed."""

    def __init__(
        self,
        settings: AlertSettings,
        fetcher: Fetcher,
        words: AlertWords,
        wall: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._fetcher = fetcher
        self._words = words
        self._wall = wall

    @property
    def name(self) -> str:
        """See `AlertTarget.name`."""
        return WEBHOOK

    async def tell(self, alert: Alert) -> str:
        """See `AlertTarget.tell`."""
        body = json.dumps(
            {
                "state": "over" if alert.over else "wrong",
                "kind": alert.kind.value,
                "subject": alert.subject,
                "text": self._words(alert),
                "facts": dict(alert.facts),
                "since": alert.since,
                "over": alert.over or None,
            },
            ensure_ascii=False,
        ).encode()
        at = str(int(self._wall()))
        headers = {"Content-Type": "application/json", TIMESTAMP: at}
        if secret := self._settings.webhook_secret.get_secret_value():
            headers[SIGNATURE] = f"sha256={signature(secret, at, body)}"
        reach = WebhookReach(self._settings.private_hosts)
        try:
            await self._fetcher.post(self._settings.webhook_url, body, headers=headers, reach=reach)
        except NotFetched as error:
            return str(error)
        return ""


class WebhookReach:
    """The policy for the webhook (`FetchPolicy`): the internet, and the operator's private hosts.
    The addresses of a host are checked, because its name may lead to another machine than the
    operator thinks."""

    def __init__(self, private_hosts: Iterable[str]) -> None:
        self._allowed = {(each.host, each.port) for each in map(PrivateHost.parse, private_hosts)}

    def check_host(self, host: str, port: int) -> None:
        """Allow every name; its addresses are checked."""

    def check_addresses(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """See `FetchPolicy.check_addresses`."""
        if (host, port) in self._allowed:
            return
        for address in addresses:
            if not is_public(address) or is_of_this_machine(address):
                shown = f"[{host}]" if ":" in host else host
                raise NotFetched(
                    f"{host} is at {address}, which is not a public address. If the webhook is "
                    f'there: NEKRO_ALERTS__PRIVATE_HOSTS=["{shown}:{port}"]'
                )

    def count_bytes(self, size: int) -> None:
        """Do nothing: `Fetcher` limits the size of an answer."""


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return the HMAC-SHA256 of the time, a dot and the body, in hexadecimal digits. The receiver
    computes the same, and refuses an old time, so that nobody can repeat a request."""
    return hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
