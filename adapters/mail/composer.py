"""Writes a delivery as a mail."""

import email.policy
from collections.abc import Mapping
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate

from nekro_core.api.adapter import Capabilities
from nekro_core.api.chat import (
    Delivery,
    File,
    Image,
    Mention,
    Reply,
    Text,
    Video,
    Voice,
    plain_text,
)

from .parser import bare_subject
from .settings import Mailbox
from .threads import Thread, new_id

MAIL_BYTES = 18 * 1024 * 1024
"""Maximum number of bytes of attachments in a mail. In base64 they become 24 MiB, and providers
accept 25 MiB."""
CAPABILITIES = Capabilities(
    inline=frozenset({Text, Mention, Reply, Image, Voice, Video, File}),
    alone=frozenset(),
    text_length=100_000,
    images_per_call=20,
    file_bytes=MAIL_BYTES,
)
POLICY = email.policy.SMTP.clone(cte_type="7bit")


class UnsendableMail(ValueError):
    """The delivery cannot be sent as a mail. The text is a reason that a person can read."""


def compose(
    box: Mailbox, delivery: Delivery, thread: Thread | None, files: Mapping[str, bytes]
) -> EmailMessage:
    """Write the mail. ``files`` maps media paths to their bytes. Raises `UnsendableMail`.

    The mail is addressed only to the chat's person. Its headers say that a program wrote it, so
    that no other program answers (RFC 3834, section 5).
    """
    key = delivery.chat_key
    mail = EmailMessage(policy=POLICY)
    local, _, domain = key.native_id.rpartition("@")
    try:
        own_local, _, own_domain = box.id.rpartition("@")
        mail["From"] = Address(box.name, own_local, own_domain)
        mail["To"] = Address("", local, domain)
    except ValueError as error:
        raise UnsendableMail(f"{key.native_id!r} is no address: {error}") from None
    mail["Subject"] = _subject(box, thread)
    mail["Date"] = formatdate()
    mail["Message-ID"] = new_id(key.thread, delivery.delivery_id, box.domain)
    if thread is not None and thread.ids:
        mail["In-Reply-To"] = _answered(delivery, thread)
        mail["References"] = " ".join(thread.ids)
    mail["Auto-Submitted"] = "auto-replied"
    mail["X-Auto-Response-Suppress"] = "All"
    words = [s for s in delivery.segments if isinstance(s, Text | Mention)]
    mail.set_content(plain_text(words).strip() + "\n")
    for segment in delivery.segments:
        if isinstance(segment, Image | Voice | Video | File):
            _attach(mail, segment, files)
    if not plain_text(words).strip() and not files:
        raise UnsendableMail("the mail is empty")
    return mail


def _subject(box: Mailbox, thread: Thread | None) -> str:
    if thread is None:
        return _line(box.subject)
    bare = bare_subject(thread.subject)
    return _line(f"Re: {bare}" if bare else box.subject)


def _answered(delivery: Delivery, thread: Thread) -> str:
    replies = (s.message_id for s in delivery.segments if isinstance(s, Reply))
    return next((each for each in replies if each in thread.ids), thread.ids[-1])


def _attach(
    mail: EmailMessage, segment: Image | Voice | Video | File, files: Mapping[str, bytes]
) -> None:
    media = segment.media
    kind, _, subtype = media.mime.partition("/")
    if not subtype or kind in ("text", "multipart", "message"):
        # As a text part, the file would be sent with other line ends and another character set.
        kind, subtype = "application", "octet-stream"
    name = _line(media.name) or f"{type(segment).__name__.lower()}"
    mail.add_attachment(files[media.path], maintype=kind, subtype=subtype, filename=name)


def _line(text: str) -> str:
    """Join a text to one line, because a line break would begin another header."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:200]
