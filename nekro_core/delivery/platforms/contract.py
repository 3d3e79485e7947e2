"""Defines how an adapter shows its accounts and lets an operator change them while it runs.

Most adapters build `nekro_core.delivery.platforms.manager.AccountManager`, which implements
`PlatformAccounts`, and give it an `AccountConnector`.

*The other side* of an account is the program that the bot talks to for this account: the platform's
server, or a program such as NapCat, which connects to the bot.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.contact_request import ContactRequest
from nekro_core.delivery.platforms.errors import ConnectionProblem


class AccountState(StrEnum):
    """The state of an account's connection."""

    CONNECTING = "connecting"
    """The account has not been connected since it was started. The bot tries to connect, or waits
    until the other side connects."""
    ONLINE = "online"
    """The account is connected."""
    OFFLINE = "offline"
    """The connection was lost. The bot tries again, or waits until the other side connects."""
    PAUSED = "paused"
    """The operator has paused the account: no message is received or sent."""
    FAILED = "failed"
    """The account cannot connect until somebody changes something, for example a wrong password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficCount:
    """How often something happened since the bot started.

    Attributes:
        total: Since the start.
        last_minute: In the last 60 s.
        last_hour: In the last 60 minutes, exact to a minute.
    """

    total: int = 0
    last_minute: int = 0
    last_hour: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """One account and its state.

    Attributes:
        key: Names the account in the calls of `PlatformAccounts`. It is part of the settings, for
            example a mail address, and unique for the adapter.
        state: The state of the connection.
        account: The platform's id of the account; empty while it is not known.
        locked: The name of the setting that defines the account, for example ``MAIL_BOTS``. Empty
            if the operator added the account with `PlatformAccounts.add`.
        restart_needed: Whether the last change takes effect only after a restart of the bot.
        connected_since: When the present connection began, in seconds since 1970; None if there is
            no connection.
        last_event_at: When the account last received something, in seconds since 1970; None if it
            never did since the start.
        last_error: The last error, as a sentence for people; empty if there was none.
        last_error_at: When the last error happened, in seconds since 1970.
        events: The received messages and notices.
        sends: The platform calls that sent a message.
    """

    key: str
    state: AccountState
    account: str = ""
    locked: str = ""
    restart_needed: bool = False
    connected_since: float | None = None
    last_event_at: float | None = None
    last_error: str = ""
    last_error_at: float | None = None
    events: TrafficCount = TrafficCount()
    sends: TrafficCount = TrafficCount()


@dataclass(frozen=True, slots=True, kw_only=True)
class HintField:
    """One value to enter on the other side.

    Attributes:
        label: The name of the field on the other side.
        value: The value to enter.
        secret: Whether the value must be hidden until somebody asks to see it.
    """

    label: str
    value: str
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HintSnippet:
    """Lines to paste into a configuration file of the other side.

    Attributes:
        title: The program or file.
        language: The language of the lines, such as ``json`` or ``yaml``.
        text: The lines.
        secret: Whether the lines contain a secret.
    """

    title: str
    language: str
    text: str
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionHint:
    """What to do on the other side, so that the account connects.

    Attributes:
        text: What to do, in some sentences.
        fields: The values to enter.
        snippets: The same values as lines of configuration files.
    """

    text: str
    fields: tuple[HintField, ...] = ()
    snippets: tuple[HintSnippet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTest:
    """The outcome of a connection test.

    Attributes:
        ok: Whether an account with these settings can connect.
        problem: What is wrong; `ConnectionProblem.NONE` if nothing is.
        text: What was found, as a sentence for people.
        seconds: How long the test took.
    """

    ok: bool
    problem: ConnectionProblem
    text: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSettings:
    """The settings of an account without its secrets.

    Attributes:
        values: The values by field, nested as in the form.
        secrets: The paths of the secret fields that have a value, for example ``imap.password``.
    """

    values: Mapping[str, Any]
    secrets: tuple[str, ...] = ()


class PlatformAccounts(Protocol):
    """The accounts of one adapter. Changing one account does not touch the others. While the stored
    accounts cannot be read, each change raises `AccountError`."""

    @property
    def live(self) -> bool:
        """Return True if changes take effect while the bot runs. If not, they are stored and take
        effect at the next start, and `AccountStatus.restart_needed` says so."""

    def form(self) -> Mapping[str, Any]:
        """Describe the settings of one account.

        Returns:
            A JSON Schema. Each field has a ``title`` and a ``description``; a secret has
            ``writeOnly``.
        """

    def listed(self) -> tuple[AccountStatus, ...]:
        """List first the accounts that the settings define, then the accounts that the operator
        added.

        Returns:
            The accounts with their state.
        """

    def settings_of(self, key: str) -> ShownSettings:
        """Get the settings of an account.

        Args:
            key: The account's key.

        Returns:
            The settings without secrets.

        Raises:
            UnknownAccount: There is no such account.
        """

    async def add(self, values: Mapping[str, Any]) -> AccountStatus:
        """Add an account and start it. It is stored, so it is started at the next start too.

        Args:
            values: The settings, as `form` describes them.

        Returns:
            The new account.

        Raises:
            InvalidAccountSettings: The settings cannot be used.
            AccountExists: There is an account with this key already.
            OSError: The settings cannot be stored.
        """

    async def change(self, key: str, values: Mapping[str, Any]) -> AccountStatus:
        """Change settings of an account and connect it again.

        Args:
            key: The account's key.
            values: The changed fields. A field that is left out keeps its value; so does a secret
                that is None.

        Returns:
            The account. Its key may be new.

        Raises:
            InvalidAccountSettings: The settings cannot be used; the old settings stay in force.
            UnknownAccount: There is no such account.
            AccountExists: Another account has the new key.
            AccountLocked: The environment or ``.env`` defines the account.
            OSError: The settings cannot be stored.
        """

    async def pause(self, key: str) -> AccountStatus:
        """Disconnect an account until `resume`, also after restarts. An account that the settings
        define can be paused too.

        Args:
            key: The account's key.

        Returns:
            The account.

        Raises:
            UnknownAccount: There is no such account.
            AccountLocked: A setting defines the account, and `live` is False.
            OSError: The settings cannot be stored.
        """

    async def resume(self, key: str) -> AccountStatus:
        """Connect a paused account again.

        Args:
            key: The account's key.

        Returns:
            The account.

        Raises:
            UnknownAccount: There is no such account.
            OSError: The settings cannot be stored.
        """

    async def remove(self, key: str) -> None:
        """Disconnect an account and delete its settings. Its chats stay stored.

        Args:
            key: The account's key.

        Raises:
            UnknownAccount: There is no such account.
            AccountLocked: The environment or ``.env`` defines the account.
            OSError: The settings cannot be stored.
        """

    async def test(self, values: Mapping[str, Any], *, key: str = "") -> ConnectionTest:
        """Try to connect with these settings, without storing anything.

        Args:
            values: The settings, as `form` describes them.
            key: An account whose secrets are used where ``values`` has none; may be empty.

        Returns:
            What was found. The call takes at most 20 s.

        Raises:
            InvalidAccountSettings: The settings cannot be used.
            UnknownAccount: There is no account with this key.
        """

    def connection_hint(self, key: str, address: str) -> ConnectionHint:
        """Say what to do on the other side, so that the account connects.

        Args:
            key: The account's key.
            address: Where the bot's web server is reached, for example ``http://10.0.0.5:8080``.

        Returns:
            The values and lines to enter on the other side.

        Raises:
            UnknownAccount: There is no such account.
        """

    async def wait_until_seen(self, key: str, *, limit_s: float) -> AccountStatus:
        """Wait until an account is online.

        Args:
            key: The account's key.
            limit_s: The longest wait in seconds.

        Returns:
            The account, when it is online or when the time is over.

        Raises:
            UnknownAccount: There is no such account.
        """


@runtime_checkable
class SupportsAccounts(Adapter, Protocol):
    """An adapter whose accounts an operator can manage while the bot runs."""

    @property
    def managed_accounts(self) -> PlatformAccounts:
        """The accounts of the adapter."""


@runtime_checkable
class SupportsRequests(Adapter, Protocol):
    """An adapter that can answer requests of people."""

    async def answer_request(self, request: ContactRequest, *, approve: bool, reason: str) -> None:
        """Approve or refuse a request on the platform.

        Args:
            request: The request.
            approve: Whether it is approved.
            reason: What a refused person reads, if the platform shows it; may be empty.

        Raises:
            CannotDo: The platform did not take the answer; the text says why.
        """
