"""Reads a mailbox. The code must run in a worker thread, because the standard library's client
blocks.

All calls raise `imaplib.IMAP4.error` if the server refuses, and `OSError` if the connection fails.
"""

import imaplib
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .settings import Mailbox

CALL_S = 30.0
"""Time limit for one answer of the server, in seconds."""
MAIL_BYTES = 40 * 1024 * 1024
"""Largest mail that is fetched whole. Of a larger mail only the headers are fetched."""
_SIZE = re.compile(rb"RFC822\.SIZE (\d+)")


@dataclass(frozen=True, slots=True)
class FetchedMail:
    """The raw bytes of a mail. Without ``complete``, ``data`` holds only the headers."""

    uid: int
    arrived: float
    size: int
    data: bytes
    complete: bool


class ImapConnection:
    """One connection to one mailbox. Only one thread at a time may use it, but any thread may call
    `abort`."""

    def __init__(self, box: Mailbox) -> None:
        self._box = box
        self._client: imaplib.IMAP4 | None = None

    def open(self) -> tuple[int, int]:
        """Log in. Return the mailbox's UIDVALIDITY and the UID that its next mail will have."""
        server = self._box.imap
        if server.tls is True:
            client: imaplib.IMAP4 = imaplib.IMAP4_SSL(
                server.host, server.port, ssl_context=server.context(), timeout=CALL_S
            )
        else:
            client = imaplib.IMAP4(server.host, server.port, timeout=CALL_S)
        self._client = client
        if server.tls == "starttls":
            client.starttls(server.context())
        client.login(self._box.login_name, self._box.password.get_secret_value())
        _checked(client.select("INBOX"))
        return self._number("UIDVALIDITY"), self._number("UIDNEXT")

    def newer(self, uid: int) -> list[int]:
        """Return the UIDs of all mails above ``uid``, lowest first."""
        client = self._opened()
        _checked(client.noop())
        answer = _checked(client.uid("SEARCH", f"UID {uid + 1}:*"))
        # "*" also finds the last mail if its UID is not above ``uid``.
        return sorted(n for part in answer if part for n in map(int, part.split()) if n > uid)

    def fetch(self, uid: int) -> FetchedMail | None:
        """Fetch a mail without marking it as read. Return None if the mail was removed in the
        meantime."""
        client = self._opened()
        about = _parts(_checked(client.uid("FETCH", str(uid), "(INTERNALDATE RFC822.SIZE)")))
        size = _SIZE.search(about[0][0]) if about else None
        if size is None:
            return None
        moment = imaplib.Internaldate2tuple(about[0][0])
        arrived = time.mktime(moment) if moment else time.time()
        complete = int(size[1]) <= MAIL_BYTES
        what = "(BODY.PEEK[])" if complete else "(BODY.PEEK[HEADER])"
        parts = _parts(_checked(client.uid("FETCH", str(uid), what)))
        data = next((body for _, body in parts if body), None)
        return None if data is None else FetchedMail(uid, arrived, int(size[1]), data, complete)

    def mark_read(self, uid: int) -> None:
        """Mark a mail as read, so that other mail programs show that the bot has processed it."""
        _checked(self._opened().uid("STORE", str(uid), "+FLAGS.SILENT", r"(\Seen)"))

    def abort(self) -> None:
        """Close the connection. A call in progress fails."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(OSError):
                client.shutdown()

    def _opened(self) -> imaplib.IMAP4:
        if self._client is None:
            raise OSError("the connection was closed")
        return self._client

    def _number(self, name: str) -> int:
        _, answer = self._opened().response(name)
        if not answer or not isinstance(answer[0], bytes):
            raise imaplib.IMAP4.error(f"the server did not send the mailbox's {name}")
        return int(answer[0])


def _checked(answer: tuple[str, Any]) -> list[Any]:
    kind, data = answer
    if kind != "OK":
        raise imaplib.IMAP4.error(f"{kind}: {data!r}"[:200])
    return list(data)


def _parts(data: list[Any]) -> list[tuple[bytes, bytes]]:
    """Return the lines of a FETCH result, each with the literal that follows it, or with b""."""
    parts = []
    for part in data:
        match part:
            case (bytes(line), bytes(literal)):
                parts.append((line, literal))
            case bytes(line) if line != b")":
                parts.append((line, b""))
    return parts
