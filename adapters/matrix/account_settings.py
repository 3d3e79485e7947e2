"""Defines the settings of an account that the operator adds while the bot runs."""

import re
from typing import Self

from nonebot.adapters.matrix.config import BotInfo
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

SETTING = "MATRIX_BOTS"


class MatrixAccountSettings(BaseModel):
    """The settings of one account."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_id: str = Field(
        title="User id", description="The account's id, such as @bot:example.org.", max_length=255
    )
    homeserver: str = Field(
        title="Homeserver",
        description="The server's address, such as https://matrix.example.org. For a user id with "
        "example.org it is in https://example.org/.well-known/matrix/client.",
    )
    access_token: SecretStr = Field(
        default=SecretStr(""),
        title="Access token",
        description="The token of a session of its own. Empty to log in with the password.",
    )
    password: SecretStr = Field(
        default=SecretStr(""),
        title="Password",
        description="The account's password, if there is no access token.",
    )
    auto_accept_invites: bool = Field(
        default=False,
        title="Accept invitations",
        description="Whether the account joins rooms to which people invite it.",
    )
    auto_accept_whitelist: tuple[str, ...] | None = Field(
        default=None,
        title="Accept invitations of",
        description="The user ids whose invitations are accepted. Leave it out for everybody's.",
    )

    @field_validator("user_id")
    @classmethod
    def _id(cls, user_id: str) -> str:
        if not re.fullmatch(r"@[^\s:]+:\S+", user_id.strip()):
            raise ValueError("expected a user id such as @bot:example.org")
        return user_id.strip()

    @field_validator("homeserver")
    @classmethod
    def _address(cls, homeserver: str) -> str:
        address = homeserver.strip().rstrip("/")
        if not re.fullmatch(r"https?://[^/\s]+(/\S*)?", address):
            raise ValueError("expected an address such as https://matrix.example.org")
        return address

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if not (self.access_token.get_secret_value() or self.password.get_secret_value()):
            raise ValueError("access_token or password: one of them is needed")
        return self

    def info(self) -> BotInfo:
        """Return the settings as nonebot-adapter-matrix has them."""
        password = self.password.get_secret_value()
        allowed = self.auto_accept_whitelist
        return BotInfo(
            homeserver=self.homeserver,
            access_token=self.access_token.get_secret_value(),
            user_id=self.user_id,
            login_user=self.user_id if password else None,
            login_password=password or None,
            auto_accept_invites=self.auto_accept_invites,
            auto_accept_whitelist=None if allowed is None else list(allowed),
        )


def settings_of(info: BotInfo, number: int) -> MatrixAccountSettings:
    """Return an entry of ``MATRIX_BOTS`` for the list of accounts. If the entry has no user id, its
    ``number`` is used as the user id."""
    name = info.user_id or info.login_user or f"account {number} at {info.homeserver}"
    return MatrixAccountSettings.model_construct(
        user_id=name,
        homeserver=info.homeserver,
        access_token=SecretStr(info.access_token or ""),
        password=SecretStr(info.login_password or ""),
        auto_accept_invites=info.auto_accept_invites,
        auto_accept_whitelist=None
        if info.auto_accept_whitelist is None
        else tuple(info.auto_accept_whitelist),
    )
