"""Defines and reads the settings of mailboxes."""

import fnmatch
import json
import ssl
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator

POLL_S = 5.0
"""Seconds between two polls of a mailbox."""


class Server(BaseModel):
    """The provider's IMAP or SMTP server."""

    host: str = Field(title="Host", description="The server's name, such as imap.example.org.")
    port: int = Field(
        ge=1, le=65535, title="Port", description="Usually 993 for IMAP, 465 or 587 for SMTP."
    )
    tls: bool | Literal["starttls"] = Field(
        default=True,
        title="Encryption",
        description="true: from the first byte. starttls: by STARTTLS (usual for port 587). false: "
        "none, so the password is sent in the clear.",
    )
    """True: TLS from the first byte. ``starttls``: TLS by STARTTLS. False: no TLS, so the password
    is sent in the clear."""

    def context(self) -> ssl.SSLContext:
        """Return a TLS context that verifies certificates."""
        return ssl.create_default_context()


class Mailbox(BaseModel):
    """One entry of ``MAIL_BOTS``: a mail account.

    The field names are those of nonebot-adapter-mail, except ``login``, ``senders`` and
    ``verified_by``.
    """

    id: str = Field(title="Address", description="The mail address, such as bot@example.org.")
    name: str = Field(
        default="Nekro", title="Name", description="The name that people see beside the address."
    )
    password: SecretStr = Field(
        title="Password", description="Many providers want an app password here."
    )
    login: str = Field(
        default="",
        title="Login name",
        description="The login name at the provider; empty if it is the address.",
    )
    subject: str = Field(
        default="A message for you",
        title="Subject",
        description="The subject of a mail that does not answer another mail.",
    )
    imap: Server = Field(title="Incoming mail (IMAP)", description="Where mail is read.")
    smtp: Server = Field(title="Outgoing mail (SMTP)", description="Where mail is sent.")
    senders: tuple[str, ...] = Field(
        default=("*",),
        title="Senders",
        description="Addresses whose mail is accepted. * stands for any text: *@example.org.",
    )
    verified_by: str = Field(
        default="",
        title="Verified by",
        description="The name that the provider puts into Authentication-Results (RFC 8601). If it "
        "is set, a mail is accepted only if the provider verified its sender. If it is empty, "
        "anybody can send mail in another person's name.",
    )
    poll_s: float = Field(
        default=POLL_S, gt=0, title="Poll", description="Seconds between two looks for new mail."
    )

    @field_validator("id")
    @classmethod
    def _address(cls, address: str) -> str:
        local, at, domain = address.strip().rpartition("@")
        if not (local and at and domain) or any(c.isspace() or c in "<>" for c in address.strip()):
            raise ValueError("expected an address, for example bot@example.org")
        return address.strip().lower()

    @property
    def login_name(self) -> str:
        """Return the login name at the provider."""
        return self.login or self.id

    @property
    def domain(self) -> str:
        """Return the domain of the address."""
        return self.id.rpartition("@")[2]

    def accepts_from(self, address: str) -> bool:
        """Return True if ``senders`` allows this address."""
        return any(fnmatch.fnmatchcase(address, pattern.lower()) for pattern in self.senders)


def read_settings(settings: Mapping[str, Any]) -> tuple[Mailbox, ...]:
    """Return the mailboxes in ``MAIL_BOTS``. If they are invalid, raises `ValueError` with a text
    for the operator."""
    written = settings.get("mail_bots") or []
    if isinstance(written, str):
        try:
            written = json.loads(written)
        except ValueError:
            raise ValueError("MAIL_BOTS is no JSON: expected a list of mailboxes") from None
    if written == []:
        return ()  # The operator can add mailboxes while the bot runs.
    if not isinstance(written, list):
        raise ValueError(  # noqa: TRY004 - of a text that the operator wrote
            'MAIL_BOTS is no list: expected [{"id": "bot@example.org", "password": "...", '
            '"imap": {"host": "...", "port": 993}, "smtp": {"host": "...", "port": 465}}]'
        )
    boxes = []
    for number, each in enumerate(written, 1):
        try:
            boxes.append(Mailbox.model_validate(each))
        except ValidationError as error:
            # The text of the `ValidationError` is not used, because it can contain the password.
            faults = "; ".join(
                f"{'.'.join(str(part) for part in fault['loc']) or 'it'}: {fault['msg']}"
                for fault in error.errors(include_input=False, include_url=False)
            )
            raise ValueError(f"MAIL_BOTS, mailbox {number}: {faults}") from None
    addresses = [box.id for box in boxes]
    if len({*addresses}) < len(addresses):
        raise ValueError("MAIL_BOTS names an address twice")
    return tuple(boxes)
