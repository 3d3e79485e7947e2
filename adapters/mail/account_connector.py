"""Connects one mailbox for `AccountManager`, and tests its settings."""

import imaplib
import smtplib
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

import anyio.to_thread

from nekro_core.api.adapter import (
    AccountMonitor,
    ConnectionHint,
    ConnectionProblem,
    ConnectionTestFailed,
)

from .imap import ImapConnection
from .settings import Mailbox, Server
from .smtp import connected


class MailConnector:
    """The `AccountConnector` of mailboxes. `run` calls the function ``read``, which reads one
    mailbox until it is cancelled."""

    def __init__(self, read: Callable[[Mailbox, AccountMonitor], Awaitable[None]]) -> None:
        self._read = read

    def key_of(self, settings: Mailbox) -> str:
        """Return the mailbox's address."""
        return settings.id

    def complete(self, settings: Mailbox) -> Mailbox:
        """Return the settings unchanged, because the bot has no values to add."""
        return settings

    async def run(self, settings: Mailbox, monitor: AccountMonitor) -> None:
        """Read the mailbox until cancelled."""
        await self._read(settings, monitor)

    async def test(self, settings: Mailbox) -> str:
        """Log in at the IMAP and the SMTP server, and return a text that says so. No mail is read
        or sent. Raises `ConnectionTestFailed`."""
        for check in (_check_imap, _check_smtp):
            await anyio.to_thread.run_sync(partial(check, settings), abandon_on_cancel=True)
        return f"both mail servers accept {settings.login_name}"

    def hint(self, settings: Mailbox, _address: str) -> ConnectionHint:
        """Return the advice to allow IMAP at the mail provider."""
        return ConnectionHint(
            text=f"The bot reads {settings.id} at {settings.imap.host} and sends at "
            f"{settings.smtp.host}. At the provider, allow IMAP for this mailbox, and make an app "
            "password if it asks for a second factor. Nothing must reach the bot from outside."
        )


def is_login_refused(error: Exception) -> bool:
    """Return True if an IMAP error means a wrong login name or password."""
    return isinstance(error, imaplib.IMAP4.error) and "AUTHENTICATIONFAILED" in str(error).upper()


def _check_imap(box: Mailbox) -> None:
    inbox = ImapConnection(box)
    try:
        with _explained("IMAP", box.imap):
            inbox.open()
    finally:
        inbox.abort()


def _check_smtp(box: Mailbox) -> None:
    with _explained("SMTP", box.smtp):
        connected(box).close()


@contextmanager
def _explained(kind: str, server: Server) -> Iterator[None]:
    """Raise every failure in the block as `ConnectionTestFailed`."""
    place = f"{kind} at {server.host}:{server.port}"
    try:
        yield
    except ssl.SSLError as error:
        problem, words = ConnectionProblem.TLS, f"the encryption failed: {error}"
    except TimeoutError as error:
        problem, words = ConnectionProblem.TOO_SLOW, f"no answer: {error}"
    except (imaplib.IMAP4.abort, smtplib.SMTPServerDisconnected) as error:
        problem, words = ConnectionProblem.NOT_THE_PLATFORM, f"it closed the connection: {error}"
    except (smtplib.SMTPNotSupportedError, smtplib.SMTPConnectError, UnicodeError) as error:
        problem, words = ConnectionProblem.NOT_THE_PLATFORM, f"no such server answers: {error}"
    except (imaplib.IMAP4.error, smtplib.SMTPException) as error:
        problem, words = ConnectionProblem.REFUSED, f"the login is refused: {error}"
    except OSError as error:
        problem, words = ConnectionProblem.UNREACHABLE, f"it cannot be reached: {error}"
    else:
        return
    raise ConnectionTestFailed(problem, f"{place}: {words}")
