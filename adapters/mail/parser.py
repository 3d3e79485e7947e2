"""Parses a mail's bytes. Never raises: `Mail.problem` says what could not be read."""

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
"""Maximum work for the parser, as the number of lines times the number of part boundaries. The
parser compares each line with each boundary; one comparison takes up to 1 µs. A mail with 40 MB of
attachments stays below this bound."""
HTML_LENGTH = 1_000_000
"""Maximum number of characters of HTML that are read."""
HEADER_BYTES = 16_000
HEADERS_BYTES = 256_000
"""Maximum number of bytes of one header, and of all headers of a mail and its parts together. Only
headers that match `_READ` count. The parser's time grows with the square of a header's length: a
``From`` of 20,000 bytes takes 2 s, and one of 1 MB takes more than an hour."""
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
    """An attachment: a part of a mail other than its text."""

    name: str
    mime: str
    data: bytes = field(repr=False)

    @property
    def kind(self) -> str:
        """Return the first half of the MIME type: ``image``, ``audio``, ``video`` or another."""
        return self.mime.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Mail:
    """A parsed mail. ``sender`` is empty if the mail names no author or several."""

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
    """Parse a mail. If parsing its body would take more than `WORK`, only the headers are parsed,
    and the whole mail becomes an attachment."""
    lines = data.splitlines()
    parse_body = len(lines) * (1 + data.count(b"boundary")) <= WORK
    lengths = [*_lengths(lines)]
    if max(lengths, default=0) > HEADER_BYTES or sum(lengths) > HEADERS_BYTES:
        return Mail(EmailMessage(), problem="its headers are too long to be read")
    try:
        if not parse_body:
            data, unparsed = data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n", data
        message = email.message_from_bytes(data, policy=email.policy.default)
    except Exception as error:  # noqa: BLE001 - the parser fails on deep nesting and more
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
    """Yield the length of each header that matches `_READ`, with its continuation lines. Body lines
    that look like such a header count too."""
    length = 0
    for line in lines:
        if length and line[:1] in (b" ", b"\t"):
            length += len(line)
        else:
            yield length
            length = len(line) if _READ.match(line) else 0
    yield length


def header(message: EmailMessage, name: str) -> str:
    """Return a header's text; empty if the library cannot read it."""
    try:
        return str(message.get(name, ""))
    except Exception:  # noqa: BLE001 - the library raises many errors for invalid headers
        return ""


def bare_subject(subject: str) -> str:
    """Remove the prefixes that mail programs add, such as ``Re:``."""
    return _ANSWER.sub("", subject).strip()


def _author(message: EmailMessage) -> tuple[str, str]:
    try:
        # ``get_all`` parses each header, which costs time, so the names are counted first.
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
    """Yield the parts that are not multipart. A mail inside a mail counts as one part."""
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
    except (LookupError, ValueError):  # Python does not have this character set
        data = part.get_payload(decode=True)
        return data.decode(errors="replace") if isinstance(data, bytes) else ""
