"""Reads the settings of mailboxes."""

import fnmatch
import json
import ssl
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator, model_validator

POLL_S = 5.0
"""Seconds between two looks into a mailbox."""


class Server(BaseModel):
    """One side of the provider's."""

    host: str
    port: int = Field(ge=1, le=65535)
    tls: bool | Literal["starttls"] = True
    """From the first byte on; ``starttls`` asks for it; false sends the password in the clear."""

    def context(self) -> ssl.SSLContext:
        """Certificates are verified."""
        return ssl.create_default_context()


class Mailbox(BaseModel):
    """One account.

    The names are nonebot-adapter-mail's, but for ``login``, ``senders`` and ``verified_by``.
    """

    id: str
    """The address."""
    name: str = "Nekro"
    password: SecretStr
    login: str = ""
    """What the provider calls the account; the address as a rule."""
    subject: str = "A message for you"
    """Of a mail that answers none."""
    imap: Server
    smtp: Server
    senders: tuple[str, ...] = ("*",)
    """Whose mail is accepted: addresses, with ``*`` for any part, as ``*@example.org``."""
    verified_by: str = ""
    """The name under which the provider writes ``Authentication-Results`` (RFC 8601). Where it is
    set, mail is accepted only if the provider verified its sender. Without it anybody can write in
    anybody's name."""
    poll_s: float = Field(default=POLL_S, gt=0)

    @field_validator("id")
    @classmethod
    def _address(cls, address: str) -> str:
        local, at, domain = address.strip().rpartition("@")
        if not (local and at and domain) or any(c.isspace() or c in "<>" for c in address.strip()):
            raise ValueError("expected an address, for example bot@example.org")
        return address.strip().lower()

    @model_validator(mode="after")
    def _named(self) -> Self:
        self.login = self.login or self.id
        return self

    @property
    def domain(self) -> str:
        """Of the address."""
        return self.id.rpartition("@")[2]

    def accepts_from(self, address: str) -> bool:
        """Whether the operator lets this sender in."""
        return any(fnmatch.fnmatchcase(address, pattern.lower()) for pattern in self.senders)


def read_settings(settings: Mapping[str, Any]) -> tuple[Mailbox, ...]:
    """The mailboxes in ``MAIL_BOTS``. Raises `ValueError` in words."""
    written = settings.get("mail_bots") or []
    if isinstance(written, str):
        try:
            written = json.loads(written)
        except ValueError:
            raise ValueError("MAIL_BOTS is no JSON: expected a list of mailboxes") from None
    if not isinstance(written, list) or not written:
        raise ValueError(
            'MAIL_BOTS names no mailbox: expected [{"id": "bot@example.org", "password": "...", '
            '"imap": {"host": "...", "port": 993}, "smtp": {"host": "...", "port": 465}}]'
        )
    boxes = []
    for number, each in enumerate(written, 1):
        try:
            boxes.append(Mailbox.model_validate(each))
        except ValidationError as error:
            # The error's own text would show the password.
            faults = "; ".join(
                f"{'.'.join(str(part) for part in fault['loc']) or 'it'}: {fault['msg']}"
                for fault in error.errors(include_input=False, include_url=False)
            )
            raise ValueError(f"MAIL_BOTS, mailbox {number}: {faults}") from None
    addresses = [box.id for box in boxes]
    if len({*addresses}) < len(addresses):
        raise ValueError("MAIL_BOTS names an address twice")
    return tuple(boxes)
