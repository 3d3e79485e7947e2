"""Parses a mail's bytes. Never raises: a `Mail` says what could not be read."""

import email
import email.policy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from email.message import EmailMessage, MIMEPart
from typing import cast

from .html_text import words_of

ATTACHMENTS = 20
WORK = 3_000_000
"""Lines times kinds of parts: the parser looks at each line for the end of each, in up to 1 µs. A
mail with 40 MB of attachments comes to less."""
HTML_LENGTH = 1_000_000
"""Characters of HTML that are read."""
HEADER_BYTES = 16_000
HEADERS_BYTES = 256_000
"""Of one header that is read, and of all of them, those of the parts among them. The parser takes a
time that grows with the square of one: an author of 20,000 bytes 2 s, of a megabyte more than an
hour."""
_READ = re.compile(
    rb"(?:from|subject|message-id|references|in-reply-to|content-[a-z-]+|mime-version|precedence|"
    rb"auto-submitted|return-path|x-auto-response-suppress|authentication-results)[ \t]*:",
    re.IGNORECASE,
)
_ID = re.compile(r"<[^<>\s]{1,500}>")
_ANSWER = re.compile(
    r"^\s*(?:(?:re|aw|antw|sv|fw|fwd|wg|回复|回覆|答复|转发|轉寄|返信)\s*(?:\[\d+\])?[:：]\s*)+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class MailAttachment:
    """A part that is no words. ``kind`` is the first half of its type."""

    name: str
    mime: str
    data: bytes = field(repr=False)

    @property
    def kind(self) -> str:
        """``image``, ``audio``, ``video`` or another."""
        return self.mime.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Mail:
    """What somebody wrote. ``sender`` is empty where the mail does not say, or names several."""

    message: EmailMessage
    sender: str = ""
    name: str = ""
    message_id: str = ""
    references: tuple[str, ...] = ()
    subject: str = ""
    text: str = ""
    attachments: tuple[MailAttachment, ...] = ()
    problem: str = ""


def read_mail(data: bytes) -> Mail:
    """A mail from its bytes. One made to keep the parser busy lies beside its headers, unread."""
    lines = data.splitlines()
    parse_body = len(lines) * (1 + data.count(b"boundary")) <= WORK
    lengths = [*_lengths(lines)]
    if max(lengths, default=0) > HEADER_BYTES or sum(lengths) > HEADERS_BYTES:
        return Mail(EmailMessage(), problem="its headers are too long to be read")
    try:
        if not parse_body:
            data, unparsed = data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", data
        message = email.message_from_bytes(data, policy=email.policy.default)
    except Exception as error:  # noqa: BLE001 - the parser's own faults, nesting without end among them
        return Mail(EmailMessage(), problem=f"unreadable: {error!r}"[:200])
    sender, name = _author(message)
    ids = _ID.findall(header(message, "Message-ID"))
    answered = _ID.findall(header(message, "In-Reply-To"))[:1]
    references = [
        each for each in _ID.findall(header(message, "References")) if each not in answered
    ]
    mail = Mail(
        message,
        sender,
        name,
        ids[0] if ids else "",
        (*references, *answered),
        " ".join(header(message, "Subject").split())[:500],
    )
    if not parse_body:
        beside = MailAttachment("mail.eml", "message/rfc822", unparsed)
        return replace(mail, attachments=(beside,), problem="it has too many parts to be read")
    try:
        text, attachments = _content(message)
    except Exception as error:  # noqa: BLE001 - as above
        return replace(mail, problem=f"unreadable: {error!r}"[:200])
    return replace(mail, text=text, attachments=attachments)


def _lengths(lines: Sequence[bytes]) -> Iterator[int]:
    """Of each header that is read, with its continuations; of lines that look like one too."""
    length = 0
    for line in lines:
        if length and line[:1] in (b" ", b"\t"):
            length += len(line)
        else:
            yield length
            length = len(line) if _READ.match(line) else 0
    yield length


def header(message: EmailMessage, name: str) -> str:
    """A header's words; empty for one that the library cannot read."""
    try:
        return str(message.get(name, ""))
    except Exception:  # noqa: BLE001 - it raises many things for headers that nobody should write
        return ""


def bare_subject(subject: str) -> str:
    """Without what programs put before it."""
    return _ANSWER.sub("", subject).strip()


def _author(message: EmailMessage) -> tuple[str, str]:
    try:
        # Each is read as it is asked for.
        if sum(name.lower() == "from" for name in message) != 1:
            return "", ""
        fields = message.get_all("From", [])
        people = [address for each in fields for address in each.addresses]
    except Exception:  # noqa: BLE001 - as in `header`
        return "", ""
    if len(people) != 1 or not people[0].username or not people[0].domain:
        return "", ""
    return str(people[0].addr_spec).lower(), str(people[0].display_name)


def _content(message: EmailMessage) -> tuple[str, tuple[MailAttachment, ...]]:
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    text = _words(plain).strip() if plain is not None else ""
    if not text and html is not None:
        text = words_of(_words(html)[:HTML_LENGTH])
    bodies = [part for part in (plain, html) if part is not None]
    others = (each for each in _leaves(message) if not any(each is body for body in bodies))
    attachments = [_attachment(part) for part in others]
    return text.replace("\r\n", "\n"), tuple(attachments[:ATTACHMENTS])


def _leaves(message: EmailMessage) -> Iterator[EmailMessage]:
    """Parts that have no parts. A mail inside a mail is one."""
    pending = [message]
    while pending:
        part = pending.pop()
        if part.is_multipart() and part.get_content_maintype() == "multipart":
            pending += [cast(EmailMessage, each) for each in reversed(list(part.iter_parts()))]
        else:
            yield part


def _attachment(part: EmailMessage) -> MailAttachment:
    mime = part.get_content_type()
    if mime == "message/rfc822":
        inner = part.get_payload(0)
        return MailAttachment(
            "mail.eml", mime, inner.as_bytes() if isinstance(inner, EmailMessage) else b""
        )
    data = part.get_payload(decode=True)
    return MailAttachment(part.get_filename() or "", mime, data if isinstance(data, bytes) else b"")


def _words(part: MIMEPart) -> str:
    try:
        return str(part.get_content())
    except (LookupError, ValueError):  # a character set that nobody has
        data = part.get_payload(decode=True)
        return data.decode(errors="replace") if isinstance(data, bytes) else ""
