"""Sends a mail over SMTP, in a worker thread.

A failure is one of three errors. `NotPosted`: the mail was surely not sent and can be sent later.
`PostRefused`: the server refused the mail permanently. `PostOutcomeUnknown`: the connection failed
while the mail was transferred, or before the server confirmed it.
"""

import smtplib

from .settings import Mailbox

CALL_S = 30.0
_AUTHENTICATION = (530, 534, 535)
"""SMTP codes that mean a wrong or missing password, not a fault of the mail."""


class NotPosted(Exception):
    """The mail was not sent. The text is a reason that a person can read."""


class PostRefused(Exception):
    """The server refused the mail. The text is the server's answer."""


class PostOutcomeUnknown(Exception):
    """The mail may have been sent. The text says what happened."""


def send_mail(box: Mailbox, mail: bytes, receiver: str) -> None:
    """Send one mail to one receiver."""
    try:
        client = connected(box)
    except smtplib.SMTPException as error:
        raise NotPosted(f"the mail server refused the login: {error}") from error
    except OSError as error:
        raise NotPosted(f"the mail server cannot be reached: {error}") from error
    try:
        _address(client, box.id, receiver)
        try:
            code, words = client.data(mail)
        except smtplib.SMTPDataError as error:
            _judge(int(error.smtp_code), error.smtp_error)
            raise PostOutcomeUnknown(str(error)) from error
        except (smtplib.SMTPException, OSError) as error:
            raise PostOutcomeUnknown(
                f"the mail server did not confirm the mail: {error}"
            ) from error
        _judge(code, words)
    finally:
        client.close()


def connected(box: Mailbox) -> smtplib.SMTP:
    """Connect and log in. Raises `smtplib.SMTPException` and `OSError`."""
    server = box.smtp
    client: smtplib.SMTP
    if server.tls is True:
        client = smtplib.SMTP_SSL(
            server.host, server.port, timeout=CALL_S, context=server.context()
        )
    else:
        client = smtplib.SMTP(server.host, server.port, timeout=CALL_S)
    try:
        if server.tls == "starttls":
            client.starttls(context=server.context())
        client.ehlo_or_helo_if_needed()
        if client.has_extn("auth"):
            client.login(box.login_name, box.password.get_secret_value())
    except BaseException:
        client.close()
        raise
    return client


def _address(client: smtplib.SMTP, sender: str, receiver: str) -> None:
    try:
        _judge(*client.mail(sender))
        _judge(*client.rcpt(receiver))
    except (smtplib.SMTPException, OSError) as error:
        raise NotPosted(f"the mail server closed the connection: {error}") from error


def _judge(code: int, words: bytes | str) -> None:
    if code < 300:
        return
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    if code >= 500 and code not in _AUTHENTICATION:
        raise PostRefused(f"{text} (code {code})")
    raise NotPosted(f"{text} (code {code})")
