"""Connects one account for `AccountManager`, and tests its settings."""

from collections.abc import Callable

from nonebot.adapters.matrix.config import BotInfo

from nekro_core.api.adapter import (
    AccountMonitor,
    ConnectionHint,
    ConnectionProblem,
    ConnectionTestFailed,
)

from .account import MatrixAccount
from .account_settings import MatrixAccountSettings
from .homeserver import (
    Homeserver,
    HomeserverError,
    HomeserverNotConnected,
    HomeserverRefused,
    LoggedOut,
    RateLimited,
)
from .incoming import Json, table, words

_FORBIDDEN = ("M_FORBIDDEN", "M_UNKNOWN_TOKEN", "M_USER_DEACTIVATED")


class MatrixConnector:
    """The `AccountConnector` of Matrix.

    Args:
        made: Maps the user ids in ``MATRIX_BOTS`` to their accounts.
        make: Makes an account that ``MATRIX_BOTS`` does not have, from its settings.
        running: The accounts that run. `run` adds its account, and removes it at the end.
        proxy: The address of a proxy; None for none.
    """

    def __init__(
        self,
        made: dict[str, MatrixAccount],
        make: Callable[[BotInfo], MatrixAccount],
        running: list[MatrixAccount],
        proxy: str | None,
    ) -> None:
        self._made = made
        self._make = make
        self._running = running
        self._proxy = proxy

    def key_of(self, settings: MatrixAccountSettings) -> str:
        """Return the user id."""
        return settings.user_id

    def complete(self, settings: MatrixAccountSettings) -> MatrixAccountSettings:
        """Return the settings unchanged, because the bot has no values to add."""
        return settings

    async def run(self, settings: MatrixAccountSettings, monitor: AccountMonitor) -> None:
        """Keep the account connected until cancelled."""
        account = self._made.get(settings.user_id)
        if account is None:
            account = self._make(settings.info())
            account.expected = settings.user_id
        if account not in self._running:
            self._running.append(account)
        try:
            await account.run(monitor)
        finally:
            self._running.remove(account)

    async def test(self, settings: MatrixAccountSettings) -> str:
        """Ask the server to which user the token belongs. With a password, log in and out instead.
        Returns what was found. Raises `ConnectionTestFailed`."""
        info = settings.info()
        try:
            async with Homeserver(info, proxy=self._proxy) as server:
                account = await _logged_in(info, server)
        except LoggedOut as error:
            problem, text = ConnectionProblem.REFUSED, f"the access token is refused: {error}"
        except HomeserverNotConnected as error:
            encrypted = any(word in str(error).lower() for word in ("ssl", "certificate"))
            problem = ConnectionProblem.TLS if encrypted else ConnectionProblem.UNREACHABLE
            text = str(error)
        except RateLimited as error:
            problem, text = ConnectionProblem.TOO_SLOW, str(error)
        except HomeserverRefused as error:
            refused = error.code in _FORBIDDEN
            problem = ConnectionProblem.REFUSED if refused else ConnectionProblem.NOT_THE_PLATFORM
            text = f"the login is refused: {error}" if refused else f"no homeserver: {error}"
        except HomeserverError as error:
            problem, text = ConnectionProblem.NOT_THE_PLATFORM, str(error)
        else:
            if account == settings.user_id:
                return f"{account} is accepted"
            problem = ConnectionProblem.REFUSED
            text = f"the token belongs to {account or 'nobody'}, not to {settings.user_id}"
        raise ConnectionTestFailed(problem, f"{settings.homeserver}: {text}")

    def hint(self, settings: MatrixAccountSettings, _address: str) -> ConnectionHint:
        """Return the advice to invite the account into a room with a Matrix client."""
        return ConnectionHint(
            text=f"Invite {settings.user_id} into an unencrypted room with any Matrix client. "
            "The bot connects to the homeserver; nothing must reach the bot from outside."
        )


async def _logged_in(info: BotInfo, server: Homeserver) -> str:
    """Return the user id. Raises `HomeserverError`."""
    if info.access_token:
        answer: Json = table(await server.get("client/v3/account/whoami"))
        return words(answer.get("user_id"))
    answer = table(
        await server.call(
            "POST",
            "client/v3/login",
            body={
                "type": "m.login.password",
                "identifier": {"type": "m.id.user", "user": info.login_user},
                "password": info.login_password,
                "initial_device_display_name": "nekro-core, a connection test",
            },
        )
    )
    info.access_token = words(answer.get("access_token"))
    await server.call("POST", "client/v3/logout", body={})
    return words(answer.get("user_id"))
