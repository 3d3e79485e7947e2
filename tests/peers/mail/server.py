"""Starts and stops the mail server, and acts as the owners of mailboxes do."""

import email
import email.policy
import imaplib
import os
import shutil
import smtplib
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Any, Self, cast

import anyio
import anyio.to_thread

from tests.peers.mail.configuration import QUEUES, Ports, dovecot, postfix_main, postfix_master
from tests.peers.ports import free_port

DOMAIN = "example.test"
PASSWORD = "a password for tests"
START_S = 30.0
MASTER = Path("/usr/lib/postfix/sbin/master")


def missing() -> str:
    """Return why the mail server cannot run on this machine; empty if it can."""
    if os.geteuid() != 0:
        return "Postfix starts for root only"
    for program, package in (("dovecot", "dovecot-imapd"), ("postfix", "postfix")):
        if shutil.which(program, path=os.defpath + ":/usr/sbin:/sbin") is None:
            return f"Debian's package {package} is not installed"
    if not Path("/usr/lib/dovecot/lmtp").exists():
        return "Debian's package dovecot-lmtpd is not installed"
    return ""


class MailServer:
    """A mail server with SMTP and IMAP on 127.0.0.1. An async context manager.

    Every address in ``people`` has a mailbox with the password `PASSWORD`.
    """

    def __init__(self, *people: str) -> None:
        self.people = people
        self.ports = Ports(0, 0, 0, 0)
        self._stack = ExitStack()
        self._dovecot: subprocess.Popen[bytes] | None = None
        self._postfix: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        await anyio.to_thread.run_sync(self.start)
        return self

    async def __aexit__(self, *error: object) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.stop)

    # -- the server ------------------------------------------------------------------------

    def start(self) -> None:
        """Start both servers. Code without an event loop can call this."""
        self.folder = Path(tempfile.mkdtemp(prefix="mail-server-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.folder.chmod(0o755)  # Dovecot's and Postfix's processes run as other users.
        self.ports = Ports(*(free_port() for _ in range(4)))
        for name, owner in (("mail", "mail"), ("postfix-data", "postfix"), ("run", None)):
            (self.folder / name).mkdir()
            if owner:
                shutil.chown(self.folder / name, owner)
        for name, mode in QUEUES.items():
            path = self.folder / "queue" / name
            path.mkdir(parents=True)
            if name != "pid":
                shutil.chown(path, "postfix", "postdrop" if mode & 0o70 else None)
            path.chmod(mode)
        (self.folder / "postfix").mkdir()
        self._write("postfix/main.cf", postfix_main(self.folder, self.ports, DOMAIN))
        self._write("postfix/master.cf", postfix_master(self.ports))
        self._write("dovecot.conf", dovecot(self.folder, self.ports))
        self._write("boxes", "".join(f"{who} there\n" for who in self.people))
        self._write("users", "".join(f"{who}:{{PLAIN}}{PASSWORD}\n" for who in self.people))
        self.start_imap()
        self.start_smtp()

    def stop(self) -> None:
        """End both servers and delete their folder."""
        self.stop_smtp()
        self.stop_imap()
        self._stack.close()

    def start_imap(self) -> None:
        """Start Dovecot and wait until it answers."""
        self._dovecot = self._run("dovecot", "-F", "-c", str(self.folder / "dovecot.conf"))
        self._await_greeting(self.ports.imap)

    def start_smtp(self) -> None:
        """Start Postfix and wait until it answers."""
        self._postfix = self._run(str(MASTER), "-c", str(self.folder / "postfix"), "-d")
        self._await_greeting(self.ports.smtp)

    def stop_imap(self) -> None:
        """End Dovecot. This breaks every IMAP connection, and no mail can be read."""
        self._dovecot = _ended(self._dovecot)

    def stop_smtp(self) -> None:
        """End Postfix. No mail can be sent."""
        self._postfix = _ended(self._postfix)

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "out.log").open("ab") as out:
            path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={"PATH": path}
            )

    def _await_greeting(self, port: int) -> None:
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as wire:
                wire.settimeout(START_S)
                if wire.recv(100):
                    return
            time.sleep(0.02)
        raise AssertionError(f"no greeting on port {port}:\n{self.logs()}")

    def logs(self) -> str:
        """The logs of both servers."""
        return "".join(path.read_text(errors="replace") for path in self.folder.glob("*.log"))

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    # -- people ----------------------------------------------------------------------------

    async def send(
        self,
        sender: str,
        to: str | Sequence[str],
        text: str = "",
        *,
        subject: str = "Hello",
        envelope: str | None = None,
        change: Callable[[EmailMessage], None] | None = None,
        **headers: str,
    ) -> str:
        """Send a mail as a person would. Returns its Message-ID.

        ``headers`` are named with ``_`` for ``-``. ``change`` may alter the message before it is
        sent. ``envelope`` is the sender address in the SMTP dialogue; the default is ``sender``.
        """
        message = EmailMessage()
        message["From"] = sender
        message["To"] = to if isinstance(to, str) else ", ".join(to)
        message["Subject"] = subject
        message["Date"] = formatdate()
        message["Message-ID"] = make_msgid(domain=DOMAIN)
        for name, value in headers.items():
            message[name.replace("_", "-")] = value
        message.set_content(text)
        if change is not None:
            change(message)
        await self.post(message.as_bytes(), sender if envelope is None else envelope, to)
        return str(message["Message-ID"])

    async def post(self, data: bytes, sender: str, to: str | Sequence[str]) -> None:
        """Send these bytes as a mail, even if they are not a valid message."""
        receivers = [to] if isinstance(to, str) else list(to)

        def post() -> None:
            with smtplib.SMTP("127.0.0.1", self.ports.smtp, timeout=START_S) as client:
                client.sendmail(sender.partition("<")[2].rstrip(">") or sender, receivers, data)

        await anyio.to_thread.run_sync(post)

    def mails(self, who: str) -> list[EmailMessage]:
        """The mails in a mailbox, in the order of arrival."""
        box = self.folder / "mail" / who
        found: dict[tuple[int, int], bytes] = {}
        for path in (path for part in ("new", "cur") for path in (box / part).glob("*")):
            # Another program may have renamed this file just before. The next call finds it under
            # its new name.
            with suppress(FileNotFoundError):
                found[_arrival(path.name)] = path.read_bytes()
        policy = email.policy.default
        return [
            cast(EmailMessage, email.message_from_bytes(found[key], policy=policy))
            for key in sorted(found)
        ]

    async def received(self, who: str, count: int = 1, within: float = 30) -> list[EmailMessage]:
        """Wait until a mailbox has this many mails, and return them."""
        try:
            with anyio.fail_after(within):
                while len(self.mails(who)) < count:
                    await anyio.sleep(0.02)
        except TimeoutError:
            found = [mail.as_string() for mail in self.mails(who)]
            raise AssertionError(
                f"{who}: {found}, not {count} mails; {self.logs()[-4000:]}"
            ) from None
        return self.mails(who)

    async def imap(self, who: str, command: Callable[[imaplib.IMAP4], Any]) -> Any:
        """Run an IMAP command in a mailbox, as another program of its owner would."""

        def run() -> Any:
            with imaplib.IMAP4("127.0.0.1", self.ports.imap) as client:
                client.login(who, PASSWORD)
                client.select("INBOX")
                return command(client)

        return await anyio.to_thread.run_sync(run)


def _arrival(name: str) -> tuple[int, int]:
    # A Maildir name is: seconds "." "M" microseconds "P" process ...
    seconds, _, rest = name.partition(".")
    return int(seconds), int(rest[1:].partition("P")[0])


def _ended(process: subprocess.Popen[bytes] | None) -> None:
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
