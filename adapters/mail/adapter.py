"""Connects mailboxes: one task watches each mailbox, and `send` posts mails."""

import hashlib
import imaplib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from loguru import logger
from nonebot.drivers import Driver

from nekro_core.api.adapter import (
    AccountManager,
    AccountMonitor,
    AdapterTasks,
    Capabilities,
    Host,
    PlatformAccounts,
)
from nekro_core.api.chat import ChatKey, Delivery, DeliveryState, File, Image, Receipt, Video, Voice

from .account_connector import MailConnector, is_login_refused
from .composer import CAPABILITIES, MAIL_BYTES, POLICY, UnsendableMail, compose
from .imap import ImapConnection
from .intake import MailIntake
from .parser import read_mail
from .position import Position, PositionFile
from .settings import Mailbox
from .smtp import NotPosted, PostOutcomeUnknown, PostRefused, send_mail
from .threads import FOLDER, Thread, ThreadStore

SETTING = "MAIL_BOTS"
RETRY_S = (1.0, 5.0, 15.0, 60.0)
"""Seconds to wait after the first, second, ... failure of a mailbox in a row. The last value
repeats."""
SEND_S = 55.0
"""Time limit for sending a mail, in seconds. When it is over, the outcome counts as unknown."""
POSTS = 4
"""Maximum number of mails that are sent at the same time."""


class MailAdapter:
    """`Adapter` for mailboxes."""

    name = "mail"

    def __init__(
        self, host: Host, driver: Driver, boxes: tuple[Mailbox, ...], *, send_s: float = SEND_S
    ) -> None:
        self._host = host
        self._driver = driver
        self._boxes: dict[str, Mailbox] = {}
        """The mailboxes that are being read."""
        self._own: set[str] = set()
        """The addresses of all mailboxes that were read since the start."""
        self._send_s = send_s
        self._folder = host.data_dir / "mail"
        self._threads = ThreadStore(host.data_dir / FOLDER)
        self._intake = MailIntake(host, self._threads, self._own, name=self.name)
        self._posting = anyio.CapacityLimiter(POSTS)
        self._accounts = AccountManager(
            Mailbox,
            MailConnector(self._read_mailbox),
            host.account_settings,
            adapter=self.name,
            locked=[(box, SETTING) for box in boxes],
        )
        self._tasks = AdapterTasks(self._serve)

    @property
    def managed_accounts(self) -> PlatformAccounts:
        """See `SupportsAccounts`."""
        return self._accounts

    def capabilities(self, _chat_key: ChatKey) -> Capabilities:
        """Return the same capabilities for every chat: one mail carries text and files."""
        return CAPABILITIES

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        """Return the addresses of all mailboxes that were read since the start, and the address
        that this chat is bound to."""
        bound = await self._host.account_of(chat_key.instance)
        return frozenset({*self._own, *({bound} if bound else ())})

    async def start(self) -> None:
        """Begin to poll every mailbox."""
        if not self._accounts.listed():
            logger.warning("Mail: MAIL_BOTS names no mailbox, and the operator has added none")
        await self._tasks.start(self._driver.task_group)

    async def aclose(self) -> None:
        """Stop polling. May be called twice."""
        await self._tasks.aclose()

    @asynccontextmanager
    async def _serve(self, tasks: TaskGroup) -> AsyncIterator[None]:
        tasks.start_soon(_in_thread, self._threads.prune)
        self._accounts.open(tasks)
        yield

    # -- receiving ---------------------------------------------------------------------------

    async def _read_mailbox(self, box: Mailbox, monitor: AccountMonitor) -> None:
        """Read a mailbox until cancelled. While the mailbox is read, mails can be sent from it."""
        if not box.verified_by:
            logger.warning(
                "Mail: anybody can write to {} in anybody's name, an operator's too. "
                'Set "verified_by" in MAIL_BOTS to the name in the Authentication-Results '
                "of your provider's mails to accept mail of verified senders only",
                box.id,
            )
        self._own.add(box.id)
        self._boxes[box.id] = box
        try:
            await self._watch(box, monitor)
        finally:
            if self._boxes.get(box.id) is box:
                del self._boxes[box.id]

    async def _watch(self, box: Mailbox, monitor: AccountMonitor) -> None:
        failures = 0
        while True:
            inbox = ImapConnection(box)
            try:
                position = await self._opened(inbox, box)
                failures = 0
                monitor.online(box.id)
                await self._listen(inbox, box, position, monitor)
            except (imaplib.IMAP4.error, OSError, ValueError) as error:
                logger.warning("Mail: {} cannot be read: {}", box.id, error)
                if is_login_refused(error):
                    monitor.failed(f"the mail server refuses the login: {error}")
                else:
                    monitor.offline(f"it cannot be read: {error}")
            except Exception as error:  # noqa: BLE001 - the store failed; the mail stays there
                logger.exception("Mail: reading {} failed; it is tried again later", box.id)
                monitor.offline(f"a mail could not be processed: {error!r}")
            finally:
                inbox.abort()
            await anyio.sleep(RETRY_S[min(failures, len(RETRY_S) - 1)])
            failures += 1

    async def _opened(self, inbox: ImapConnection, box: Mailbox) -> Position:
        """Log in and return the position to read from. At the first start this is the end of the
        mailbox: mails that are already there were not written to a bot."""
        validity, following = await _in_thread(inbox.open)
        instance = await self._host.instance_of(self.name, box.id)
        self._host.online()
        logger.info("Mail: {} is read as {}", box.id, instance)
        position = await _in_thread(self._positions(box).read)
        if position is None:
            position = Position(validity, following - 1)
            await _in_thread(partial(self._positions(box).write, position))
        if position.validity == validity:
            return position
        # The server has renumbered the mails, so the newest mails are read again (see `SLACK_S`).
        # The inbox refuses each mail whose Message-ID it has stored already.
        since = await self._host.newest_times(instance)
        self._intake.seen_until[box.id] = max(since.values(), default=0.0)
        return Position(validity, 0)

    async def _listen(
        self, inbox: ImapConnection, box: Mailbox, position: Position, monitor: AccountMonitor
    ) -> None:
        file = self._positions(box)
        while True:
            for uid in await _in_thread(partial(inbox.newer, position.uid)):
                fetched = await _in_thread(partial(inbox.fetch, uid))
                if fetched is not None:
                    monitor.event()
                    mail = await _in_thread(partial(read_mail, fetched.data))
                    if await self._intake.take(box, fetched, mail):
                        await _in_thread(partial(inbox.mark_read, uid))
                position = Position(position.validity, uid)
                await _in_thread(partial(file.write, position))
            await anyio.sleep(box.poll_s)

    def _positions(self, box: Mailbox) -> PositionFile:
        name = hashlib.sha256(box.id.encode()).hexdigest()[:16]
        return PositionFile(Path(self._folder) / f"{name}.json")

    # -- sending -----------------------------------------------------------------------------

    async def send(self, delivery: Delivery) -> Receipt:
        """Send one mail, from the address that the chat is bound to. The chat's person is the only
        receiver."""
        key = delivery.chat_key
        account = await self._host.account_of(key.instance)
        if account is None:
            return _receipt(DeliveryState.REJECTED, f"no account is bound to {key.instance!r}")
        box = self._boxes.get(account)
        if box is None:
            return _receipt(DeliveryState.PENDING, f"the mailbox {account} is not read now")
        thread = await _in_thread(partial(self._threads.read, key))
        try:
            with anyio.fail_after(self._send_s):
                mail = compose(box, delivery, thread, await _files(delivery))
                data = await _in_thread(partial(mail.as_bytes, policy=POLICY))
                async with self._posting:
                    await _in_thread(partial(send_mail, box, data, key.native_id))
        except TimeoutError:
            reason = f"no answer within {self._send_s:g} s; it may have arrived"
            return _receipt(DeliveryState.UNKNOWN, reason)
        except (UnsendableMail, PostRefused) as error:
            return _receipt(DeliveryState.REJECTED, str(error))
        except NotPosted as error:
            return _receipt(DeliveryState.PENDING, str(error))
        except PostOutcomeUnknown as error:
            logger.warning("{}: outcome unknown: {}", key, error)
            return _receipt(DeliveryState.UNKNOWN, str(error))
        self._accounts.count_send(box.id)
        message_id = str(mail["Message-ID"])
        following = (thread or Thread(str(mail["Subject"]))).with_id(message_id)
        try:
            await _in_thread(partial(self._threads.write, key, following))
        except OSError as error:
            logger.error("{}: the thread's Message-IDs cannot be stored: {}", key, error)
        return Receipt(state=DeliveryState.SENT, message_id=message_id)


async def _files(delivery: Delivery) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for segment in delivery.segments:
        if not isinstance(segment, Image | Voice | Video | File):
            continue
        name = segment.media.name or "the file"
        try:
            path = anyio.Path(segment.media.path)
            size = (await path.stat()).st_size
            if size + sum(map(len, contents.values())) > MAIL_BYTES:
                raise UnsendableMail(f"{name}: a mail may have {MAIL_BYTES} bytes of attachments")
            contents[segment.media.path] = await path.read_bytes()
        except OSError as error:
            raise UnsendableMail(f"{name} cannot be read: {error.strerror or error}") from None
    return contents


def _receipt(state: DeliveryState, reason: str) -> Receipt:
    return Receipt(state=state, reason=reason)


_in_thread = partial(anyio.to_thread.run_sync, abandon_on_cancel=True)
