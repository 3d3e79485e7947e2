"""Shows the platforms and the bot's accounts on them, and changes both while the bot runs."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import Field, Secret

from nekro_core.delivery.platforms.contract import (
    AccountState,
    AccountStatus,
    ConnectionHint,
    ConnectionTest,
    PlatformAccounts,
    ShownSettings,
    SupportsAccounts,
)
from nekro_core.delivery.platforms.errors import InvalidAccountSettings, UnknownAccount
from nekro_core.delivery.platforms.switch import PlatformState, PlatformStatus, PlatformSwitch
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor

Result = TypeVar("Result")


class HiddenSettings(Secret[dict[str, Any]]):
    """Settings of an account, as the platform's form describes them. The audit log does not store
    their values, because they contain secrets."""

    def _display(self) -> str:
        return "**********"


PlatformName = Annotated[str, Field(min_length=1, max_length=64)]
AccountKey = Annotated[str, Field(min_length=1, max_length=500)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountForm:
    """The form for one account of a platform.

    Attributes:
        platform: The platform's name.
        live: Whether changes take effect while the bot runs. If not, they take effect after a
            restart.
        json_schema: The settings as a JSON Schema, with titles and descriptions. A secret has
            ``writeOnly``.
    """

    platform: str
    live: bool
    json_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountView:
    """An account of a platform.

    Attributes:
        platform: The platform's name.
        status: The account and its state.
    """

    platform: str
    status: AccountStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettings:
    """The settings of an account without its secrets.

    Attributes:
        values: The values by field, nested as in the form.
        secrets: The paths of the secret fields that have a value, for example ``imap.password``.
        revision: A text that is different for different settings. It does not change if only the
            value of a secret changes.
    """

    values: Mapping[str, Any]
    secrets: tuple[str, ...]
    revision: str


class Platforms(Area):
    """The platforms and the bot's accounts on them.

    Args:
        audit: The audit log.
        switch: Switches platforms on and off, and has the adapters that run.
    """

    name = "platforms"

    def __init__(self, audit: AuditLog, switch: PlatformSwitch) -> None:
        super().__init__(audit)
        self._switch = switch

    @query(role=AccessRole.VIEWER)
    async def listed(self, actor: Actor) -> list[PlatformStatus]:  # noqa: ARG002
        """List all platforms: those that run, and those that can be switched on."""
        return list(await self._switch.listed())

    @query(role=AccessRole.VIEWER)
    async def accounts(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName | None = None,
    ) -> list[AccountView]:
        """List the accounts with their state, last event, last error and rates.

        Args:
            platform: Only the accounts of this platform.
        """
        return [
            AccountView(platform=name, status=status)
            for name, adapter in self._switch.adapters().items()
            if platform in (None, name) and isinstance(adapter, SupportsAccounts)
            for status in adapter.managed_accounts.listed()
        ]

    @query(role=AccessRole.VIEWER)
    async def form(self, actor: Actor, *, platform: PlatformName) -> AccountForm:  # noqa: ARG002
        """Get the form for one account of a platform.

        Args:
            platform: The platform's name.
        """
        accounts = self._accounts(platform)
        return AccountForm(platform=platform, live=accounts.live, json_schema=accounts.form())

    @query(role=AccessRole.VIEWER)
    async def account_settings(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        account: AccountKey,
    ) -> AccountSettings:
        """Get the settings of an account without its secrets.

        Args:
            platform: The platform's name.
            account: The account's key.
        """
        shown = _known(self._accounts(platform).settings_of, account)
        return AccountSettings(
            values=shown.values, secrets=shown.secrets, revision=_revision(shown)
        )

    @query(role=AccessRole.OWNER)
    async def connection_hint(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        account: AccountKey,
        address: Annotated[str, Field(pattern=r"^https?://[^\s/]+$", max_length=300)],
    ) -> ConnectionHint:
        """Get the values and lines to enter in the platform's program, so that an account connects.
        They contain the account's access token.

        Args:
            platform: The platform's name.
            account: The account's key.
            address: Where the bot's web server is reached, such as http://10.0.0.5:8080.
        """
        accounts = self._accounts(platform)
        return _known(lambda key: accounts.connection_hint(key, address), account)

    @query(role=AccessRole.VIEWER)
    async def wait_until_seen(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        account: AccountKey,
        limit_s: Annotated[float, Field(gt=0, le=60)] = 30.0,
    ) -> AccountStatus:
        """Wait until an account is online or the time is over, and then get its state.

        Args:
            platform: The platform's name.
            account: The account's key.
            limit_s: The longest wait in seconds.
        """
        waiting = self._accounts(platform).wait_until_seen(account, limit_s=limit_s)
        return await _checked(waiting)

    @action(role=AccessRole.OWNER)
    async def test_account(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        settings: HiddenSettings,
        account: str = "",
    ) -> Change[ConnectionTest]:
        """Try to connect with settings, without storing them. The answer says what fails.

        Args:
            platform: The platform's name.
            settings: The settings of the account.
            account: An account whose saved secrets are used for the secrets that ``settings``
                lacks.
        """
        testing = self._accounts(platform).test(settings.get_secret_value(), key=account)
        outcome = await _checked(testing)
        return Change(result=outcome, subject=platform, new=outcome.text)

    @action(role=AccessRole.OPERATOR)
    async def add_account(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        settings: HiddenSettings,
    ) -> Change[AccountStatus]:
        """Add an account and connect it.

        Args:
            platform: The platform's name.
            settings: The settings of the account, as the form describes them.
        """
        accounts = self._accounts(platform)
        status = await _checked(accounts.add(settings.get_secret_value()))
        return Change(
            result=status,
            subject=f"{platform}:{status.key}",
            new=accounts.settings_of(status.key),
            undo=_undo("remove_account", platform, status.key),
        )

    @action(role=AccessRole.OWNER)
    async def change_account(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        account: AccountKey,
        settings: HiddenSettings,
        expected: Annotated[str, Field(max_length=64)] = "",
    ) -> Change[AccountStatus]:
        """Change settings of an account, and connect it again.

        Args:
            platform: The platform's name.
            account: The account's key.
            settings: The changed fields. A field that is left out keeps its value.
            expected: The ``revision`` of the settings that the person has seen. If they have
                changed since, nothing is changed. Empty to change them in any case.
        """
        accounts, values = self._accounts(platform), settings.get_secret_value()
        old = _known(accounts.settings_of, account)
        if expected and expected != _revision(old):
            raise ChangedMeanwhile(
                f"somebody else has changed the settings of {account} meanwhile; nothing was "
                "changed: look at the present settings first"
            )
        status = await _checked(accounts.change(account, values))
        undo = UndoCall(
            action="platforms.change_account",
            parameters={"platform": platform, "account": status.key, "settings": old.values},
        )
        return Change(
            result=status,
            subject=f"{platform}:{status.key}",
            old=old,
            new=accounts.settings_of(status.key),
            undo=None if _gives_secret(old.values, values) else undo,
        )

    @action(role=AccessRole.OPERATOR)
    async def pause_account(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        account: AccountKey,
    ) -> Change[AccountStatus]:
        """Disconnect an account until it is resumed. Until then, the bot does not get messages of
        this account.

        Args:
            platform: The platform's name.
            account: The account's key.
        """
        accounts = self._accounts(platform)
        old = _state_of(accounts, account)
        status = await _checked(accounts.pause(account))
        undo = _undo("resume_account", platform, account)
        return Change(
            result=status,
            subject=f"{platform}:{account}",
            old=old,
            new="paused",
            undo=None if old is AccountState.PAUSED else undo,
        )

    @action(role=AccessRole.OPERATOR)
    async def resume_account(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        account: AccountKey,
    ) -> Change[AccountStatus]:
        """Connect a paused account again.

        Args:
            platform: The platform's name.
            account: The account's key.
        """
        accounts = self._accounts(platform)
        old = _state_of(accounts, account)
        status = await _checked(accounts.resume(account))
        undo = _undo("pause_account", platform, account)
        return Change(
            result=status,
            subject=f"{platform}:{account}",
            old=old,
            new="resumed" if old is AccountState.PAUSED else old,
            undo=undo if old is AccountState.PAUSED else None,
        )

    @action(role=AccessRole.OPERATOR, destructive=True)
    async def remove_account(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
        account: AccountKey,
    ) -> Change[None]:
        """Disconnect an account and delete its settings. Its chats stay stored.

        Args:
            platform: The platform's name.
            account: The account's key.
        """
        accounts = self._accounts(platform)
        old = _known(accounts.settings_of, account)
        await _checked(accounts.remove(account))
        return Change(result=None, subject=f"{platform}:{account}", old=old)

    @action(role=AccessRole.OPERATOR)
    async def enable(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
    ) -> Change[PlatformStatus]:
        """Switch a platform on, now and at each start.

        Args:
            platform: The platform's name.
        """
        old = await self._platform_state(platform)
        status = await self._switch.enable(platform)
        return _switched(old, status, "" if status.locked else "platforms.disable")

    @action(role=AccessRole.OPERATOR)
    async def disable(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        platform: PlatformName,
    ) -> Change[PlatformStatus]:
        """Switch a platform off, now and at each start. Its accounts stay stored.

        Args:
            platform: The platform's name.
        """
        old = await self._platform_state(platform)
        status = await self._switch.disable(platform)
        return _switched(old, status, "platforms.enable")

    async def _platform_state(self, platform: str) -> PlatformState | None:
        """Return the state of a platform; None if there is no such platform."""
        found = (each.state for each in await self._switch.listed() if each.name == platform)
        return next(found, None)

    def _accounts(self, platform: str) -> PlatformAccounts:
        adapter = self._switch.adapters().get(platform)
        if adapter is None:
            raise NoSuchItem(f"the platform {platform!r} does not run")
        if not isinstance(adapter, SupportsAccounts):
            raise NoSuchItem(
                f"the accounts of {platform} are set in the environment or .env; they cannot be "
                "managed while the bot runs"
            )
        return adapter.managed_accounts


def _switched(
    old: PlatformState | None, status: PlatformStatus, back: str
) -> Change[PlatformStatus]:
    """Describe a switch of a platform. ``back`` is the action that undoes it; empty if there is
    none."""
    undo = None
    if back and old is not status.state:
        undo = UndoCall(action=back, parameters={"platform": status.name})
    return Change(result=status, subject=status.name, old=old, new=status.state, undo=undo)


def _state_of(accounts: PlatformAccounts, account: str) -> AccountState | None:
    """Return the state of an account; None if there is no such account."""
    return next((each.state for each in accounts.listed() if each.key == account), None)


def _undo(name: str, platform: str, account: str) -> UndoCall:
    return UndoCall(
        action=f"platforms.{name}", parameters={"platform": platform, "account": account}
    )


def _revision(shown: ShownSettings) -> str:
    text = json.dumps([shown.values, shown.secrets], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _gives_secret(old: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Return True if ``values`` sets a field that is not in ``old``. ``old`` are the shown
    settings, which have no secrets, so such a field may be a secret."""
    for name, value in values.items():
        if name not in old and value is not None:
            return True
        inner = old.get(name)
        if (
            isinstance(value, Mapping)
            and isinstance(inner, Mapping)
            and _gives_secret(inner, value)
        ):
            return True
    return False


def _known(read: Callable[[str], Result], account: str) -> Result:
    try:
        return read(account)
    except UnknownAccount as error:
        raise NoSuchItem(str(error)) from error


async def _checked(work: Awaitable[Result]) -> Result:
    """Wait for ``work``, and convert errors of accounts to errors of operators."""
    try:
        return await work
    except UnknownAccount as error:
        raise NoSuchItem(str(error)) from error
    except InvalidAccountSettings as error:
        problems = {
            f"settings.{path}" if path else "settings": text
            for path, text in error.problems.items()
        }
        raise InvalidParameters(problems) from error
