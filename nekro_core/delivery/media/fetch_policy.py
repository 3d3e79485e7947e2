"""Decides from which hosts the bot may fetch. URLs in a platform's messages and URLs from a chat's
code have different policies: the platform's program may run on this machine, and a chat's code must
not reach this machine."""

import ipaddress
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from nekro_core.delivery.errors import NotFetched
from nekro_core.sandbox.egress.limits import TrafficBudgetExceeded
from nekro_core.sandbox.egress.rules import Destination, EgressDenied, EgressRule, EgressRules
from nekro_core.system.addresses import Address, is_of_this_machine, is_public
from nekro_core.system.listening_ports import is_own_port

_NO_RULES = EgressRules()
WEB_PORTS = frozenset({80, 443})
_LONGEST_SHOWN = 100


class FetchPolicy(Protocol):
    """Checks each connection, also after a redirect. ``host`` is lower case and ASCII."""

    def check_host(self, host: str, port: int) -> None:
        """Check a host before its name is resolved. Raises `NotFetched`."""

    def check_addresses(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """Check a host's addresses before a connection. Raises `NotFetched`."""

    def count_bytes(self, size: int) -> None:
        """Count received bytes. Raises `NotFetched` if there are too many."""


@dataclass(frozen=True, slots=True)
class PrivateHost:
    """A host that the operator allows although its address is not public.

    ``port`` is None if the entry names no port. Such entries have an older form.
    """

    host: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``host:port``; an IPv6 address is written in brackets. Raises `ValueError`."""
        entry = text.strip().lower()
        if _is_ipv6(entry):
            return cls(entry, None)
        host, colon, port = entry.rpartition(":")
        if not colon or port.endswith("]"):
            host, port = entry, ""
        number = int(port) if port.isascii() and port.isdigit() else 0
        bare = host.removeprefix("[").removesuffix("]")
        if (colon and port and not 1 <= number <= 65535) or (colon and not port and host != entry):
            raise _no_entry(text)
        if host.startswith("[") != host.endswith("]") or (host != bare and not _is_ipv6(bare)):
            raise _no_entry(text)
        if not bare or any(sign in bare for sign in "/@?#[] ") or (host == bare and ":" in bare):
            raise _no_entry(text)
        return cls(bare, number or None)


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _no_entry(text: str) -> ValueError:
    return ValueError(
        f"{text[:_LONGEST_SHOWN]!r}: expected a host and its port, such as 127.0.0.1:3001, "
        "[::1]:3001 or files.lan:9000"
    )


class PlatformFetchPolicy:
    """The policy for URLs in a platform's messages: the internet, and the operator's private hosts.

    ``entries`` are texts for `PrivateHost.parse`. An entry without a port opens 80, 443 and
    ``old_ports``. ``is_own_port`` says whether the bot itself listens at a port of this machine; no
    entry opens such a port.
    """

    def __init__(
        self,
        entries: Iterable[str] = (),
        *,
        old_ports: Collection[int] = (),
        is_own_port: Callable[[int], bool] = is_own_port,
    ) -> None:
        self._entries = [PrivateHost.parse(entry) for entry in entries]
        self._old_ports = WEB_PORTS | set(old_ports)
        self._is_own_port = is_own_port

    @property
    def bare(self) -> list[str]:
        """The hosts of the entries without a port, sorted."""
        return sorted(entry.host for entry in self._entries if entry.port is None)

    @property
    def old_ports(self) -> list[int]:
        """The ports that an entry without a port opens, sorted."""
        return sorted(self._old_ports)

    def check_host(self, host: str, port: int) -> None:
        """Allow any name."""

    def check_addresses(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """See `FetchPolicy.check_addresses`."""
        ours = [address for address in addresses if is_of_this_machine(address)]
        inner = [address for address in addresses if address in ours or not is_public(address)]
        if inner and not self._is_named(host, port):
            raise NotFetched(
                f"{host} is at {inner[0]}, which is not public. If the platform's program serves "
                f'files there: NEKRO_DELIVERY__MEDIA__PRIVATE_HOSTS=["{_shown(host, port)}"]'
            )
        if ours and self._is_own_port(port):
            raise NotFetched(f"at port {port} of {host} the bot itself listens")

    def count_bytes(self, size: int) -> None:
        """Do nothing: only the size of each single medium is limited."""

    def _is_named(self, host: str, port: int) -> bool:
        return any(
            entry.host == host
            and (port in self._old_ports if entry.port is None else port == entry.port)
            for entry in self._entries
        )


def _nothing(_: int) -> None:
    return None


class ChatFetchPolicy:
    """The policy for URLs of one chat. It allows the hosts that the chat's boxes may reach, and
    never this machine.

    ``told`` is true if the chat's code named the host. If a plugin chose the host, ``told`` is
    false: then no rule is needed, but the host must be on the internet. ``spend`` counts the
    traffic and raises `TrafficBudgetExceeded`. ``refused`` is called with each refused destination
    and the reason.
    """

    def __init__(
        self,
        rules: EgressRules = _NO_RULES,
        *,
        told: Callable[[str], bool],
        spend: Callable[[int], None] = _nothing,
        refused: Callable[[str, str], None] = lambda _destination, _reason: None,
    ) -> None:
        self._rules = rules
        self._told = told
        self._spend = spend
        self._refused = refused
        self._counts = False

    def check_host(self, host: str, port: int) -> None:
        """Allow only hosts that a rule allows. This check comes before the lookup, because a lookup
        already sends the name to a name server of its domain."""
        if not self._told(host):
            return
        self._counts = True
        self.count_bytes(0)
        if self._rule(host, port) is None:
            where = _shown(host, port)
            allow = host if port in WEB_PORTS else where
            missing = (
                f"{where} is not among what this chat's code may reach"
                if self._rules
                else "this chat's code has no network: make the file in the box instead"
            )
            raise self._refusal(
                where,
                f'{missing}. The bot\'s operator can allow it: NEKRO_SANDBOX__EGRESS=["{allow}"]',
            )

    def check_addresses(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """See `FetchPolicy.check_addresses`."""
        rule = self._rule(host, port)
        for address in addresses:
            if is_of_this_machine(address):
                raise self._refusal(
                    _shown(host, port), f"{host} is the bot's own machine, which is not public"
                )
            if not is_public(address) and (rule is None or not rule.private):
                raise self._refusal(
                    _shown(host, port), f"{host} is in the bot's network, which is not public"
                )

    def count_bytes(self, size: int) -> None:
        """See `FetchPolicy.count_bytes`."""
        if not self._counts:
            return
        try:
            self._spend(size)
        except TrafficBudgetExceeded:
            raise self._refusal("", "this chat has used up its traffic of the hour") from None

    def _rule(self, host: str, port: int) -> EgressRule | None:
        try:
            return self._rules.find(Destination.parse(_shown(host, port)))
        except EgressDenied as error:
            if self._told(host):
                raise self._refusal(_shown(host, port), str(error)) from None
            return None

    def _refusal(self, destination: str, reason: str) -> NotFetched:
        self._refused(destination, reason)
        return NotFetched(reason)


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def public_internet() -> ChatFetchPolicy:
    """Return a policy for URLs that no chat's code named. It allows only the internet."""
    return ChatFetchPolicy(told=lambda _: False)
