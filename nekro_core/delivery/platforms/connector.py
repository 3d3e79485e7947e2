"""Defines what an adapter does for its `nekro_core.delivery.platforms.manager.AccountManager`."""

from typing import Protocol, TypeVar

from pydantic import BaseModel

from nekro_core.delivery.platforms.contract import ConnectionHint
from nekro_core.delivery.platforms.monitor import AccountMonitor

Settings = TypeVar("Settings", bound=BaseModel)


class AccountConnector(Protocol[Settings]):
    """What an adapter does for its `AccountManager`. "The other side" of an account is the
    platform's server, or another program that the bot talks to for this account."""

    def key_of(self, settings: Settings) -> str:
        """Return the account's key: the part of its settings that no other account may have.

        Args:
            settings: The settings.

        Returns:
            The key, for example the mail address.
        """

    def complete(self, settings: Settings) -> Settings:
        """Fill in what the operator may leave to the bot, for example a new access token.

        Args:
            settings: The settings as they were entered.

        Returns:
            The settings that are stored.
        """

    async def run(self, settings: Settings, monitor: AccountMonitor) -> None:
        """Keep the account connected until cancelled. Report the state to ``monitor``. When this
        call ends, no task of the account may be left.

        Args:
            settings: The settings.
            monitor: The account's state.
        """

    async def test(self, settings: Settings) -> str:
        """Try to connect, and change nothing.

        Args:
            settings: The settings.

        Returns:
            What was found, as a sentence for people.

        Raises:
            ConnectionTestFailed: The account cannot be connected. The error says what is wrong.
        """

    def hint(self, settings: Settings, address: str, /) -> ConnectionHint:
        """Say what the operator must do on the other side, so that the account connects.

        Args:
            settings: The settings.
            address: Where the bot's web server is reached, for example ``http://10.0.0.5:8080``.

        Returns:
            The values and lines to enter on the other side.
        """
