"""Decides which mails are accepted and to which chat each belongs, and hands them to
`Host.accept`."""

import re
from collections.abc import Collection
from functools import partial

import anyio.to_thread
from loguru import logger

from nekro_core.api.adapter import Host, accept_patiently
from nekro_core.api.chat import (
    ChatKey,
    ChatKeyError,
    ChatKind,
    ChatMessage,
    File,
    Image,
    Media,
    Notice,
    Segment,
    Segments,
    Sender,
    Text,
    Unknown,
    Video,
    Voice,
)

from .automatic_mail import automatic_reason
from .imap import MAIL_BYTES, FetchedMail
from .parser import Mail, MailAttachment, bare_subject
from .quotations import without_quotes
from .sender_verification import is_sender_verified
from .settings import Mailbox
from .threads import Thread, ThreadStore, is_ours, our_ids, thread_of

TEXT_LENGTH = 20_000
"""Maximum number of characters of a mail that become the message's text. A longer text is also
attached as a file."""
_RECIPIENT = re.compile(r"^final-recipient:\s*rfc822;\s*(\S+)", re.IGNORECASE | re.MULTILINE)
_DIAGNOSIS = re.compile(r"^(?:diagnostic-code|status):\s*(.+)$", re.IGNORECASE | re.MULTILINE)
SLACK_S = 86_400.0
"""After a server has renumbered its mails, only recent mails are read again. A mail is recent if it
arrived after the newest known message, or at most this many seconds before it."""


class MailIntake:
    """Processes the mails of all mailboxes. ``own`` holds the addresses of these mailboxes. They
    may change while the bot runs."""

    def __init__(
        self, host: Host, threads: ThreadStore, own: Collection[str], *, name: str
    ) -> None:
        self._host = host
        self._threads = threads
        self._own = own
        self._name = name
        self.seen_until: dict[str, float] = {}
        """The time of the newest known message, for each mailbox whose mails were renumbered."""

    async def take(self, box: Mailbox, fetched: FetchedMail, mail: Mail) -> bool:
        """Hand a mail to the host, and return True when it is stored. False if the mail is ignored.

        If the store fails, storing is tried again several times. If all tries fail, the error of
        the store is raised.
        """
        if fetched.arrived < self.seen_until.get(box.id, 0.0) - SLACK_S:
            return False
        if why := self._why_not(box, mail):
            logger.info("Mail: a mail to {} from {} is left alone: {}", box.id, mail.sender, why)
            await self._report_failure(box, fetched, mail)
            return False
        instance = await self._host.instance_of(self._name, box.id)
        thread_id = thread_of(_id_of(fetched, mail), mail.references, box.domain)
        try:
            key = ChatKey(instance, ChatKind.PRIVATE, mail.sender, thread_id)
        except ChatKeyError as error:
            logger.warning("Mail: a mail from {} belongs to no chat: {}", mail.sender, error)
            return False
        thread = await anyio.to_thread.run_sync(self._threads.read, key)
        if _ids(thread) == (_id_of(fetched, mail),):
            # The stored thread has this mail only: an earlier try stored the thread, but not the
            # mail. So the mail is treated as the first of its thread.
            thread = None
        message = ChatMessage(
            chat_key=key,
            message_id=_id_of(fetched, mail),
            sender=Sender(mail.sender, mail.name),
            segments=await self._readable(box, key, thread, fetched, mail),
            time=fetched.arrived,
            account=box.id,
            to_bot=True,
        )
        following = Thread(mail.subject or (thread.subject if thread else ""), _ids(thread))
        following = following.with_id(message.message_id)
        # The thread is stored first: the bot may answer as soon as the message is stored.
        await anyio.to_thread.run_sync(partial(self._threads.write, key, following))
        await accept_patiently(self._host.accept, message)
        return True

    def _why_not(self, box: Mailbox, mail: Mail) -> str:
        if not mail.sender:
            return mail.problem or "it does not say who wrote it"
        if mail.sender in self._own:
            return "it is ours"
        if why := automatic_reason(mail.message, mail.sender):
            return why
        if not box.accepts_from(mail.sender):
            return "the operator's list of senders does not have them"
        if box.verified_by and not is_sender_verified(mail.message, mail.sender, box.verified_by):
            return f"{box.verified_by} did not find the sender to be genuine"
        return ""

    async def _readable(
        self, box: Mailbox, key: ChatKey, thread: Thread | None, fetched: FetchedMail, mail: Mail
    ) -> Segments:
        try:
            return await self._segments(box, key, thread, fetched, mail)
        except Exception as error:  # noqa: BLE001 - one mail must not block the mailbox forever
            logger.exception("{}: a mail could not be read", key)
            return (Unknown("mail", f"unreadable: {error!r}"[:200]),)

    async def _segments(
        self, box: Mailbox, key: ChatKey, thread: Thread | None, fetched: FetchedMail, mail: Mail
    ) -> Segments:
        segments: list[Segment] = []
        text = mail.text
        long = len(text) > TEXT_LENGTH
        if long:
            data = text.encode(errors="replace")
            segments.append(File(await self._host.media.keep_bytes(key, data, name="mail.txt")))
            text = f"{text[:TEXT_LENGTH]}..."
        if any(is_ours(each, box.domain) or each in _ids(thread) for each in mail.references):
            text = without_quotes(text)
        if thread is None or bare_subject(mail.subject) != bare_subject(thread.subject):
            text = f"Subject: {mail.subject}\n\n{text}".strip() if mail.subject else text
        if text:
            segments.insert(0, Text(text))
        segments += [await self._store(key, attachment) for attachment in mail.attachments]
        if not fetched.complete:
            problem = f"the mail has {fetched.size} bytes: at most {MAIL_BYTES} are fetched"
            segments.append(File(Media(name="mail.eml", problem=problem)))
        if mail.problem:
            segments.append(Unknown("mail", mail.problem))
        return tuple(segments) or (Unknown("mail", "it is empty"),)

    async def _store(self, key: ChatKey, attachment: MailAttachment) -> Segment:
        keep = partial(self._host.media.keep_bytes, key, attachment.data, name=attachment.name)
        match attachment.kind:
            case "image":
                return Image(await keep(expect="image"))
            case "audio":
                return Voice(await keep(expect="audio"))
            case "video":
                return Video(await keep(expect="video"))
        return File(await keep(expect="file"))

    async def _report_failure(self, box: Mailbox, fetched: FetchedMail, mail: Mail) -> None:
        """If the mail reports that a mail of the bot could not be delivered, add a notice to that
        mail's chat.

        Anybody could write such a report. So the report must name a mail of the bot in a stored
        thread, and the bot does not answer the notice.
        """
        if mail.message.get_content_type() != "multipart/report":
            return
        raw = fetched.data.decode("ascii", "replace")
        ids, recipient = our_ids(raw, box.domain), _RECIPIENT.search(raw)
        if not ids or recipient is None:
            return
        instance = await self._host.instance_of(self._name, box.id)
        try:
            thread = thread_of(ids[0], (), box.domain)
            key = ChatKey(instance, ChatKind.PRIVATE, recipient[1].lower(), thread)
        except ChatKeyError:
            return
        earlier = await anyio.to_thread.run_sync(self._threads.read, key)
        if ids[0] not in _ids(earlier):
            return
        diagnosis = _DIAGNOSIS.findall(raw)
        detail = (diagnosis[-1] if diagnosis else "no reason given").strip()[:200]
        logger.warning("{}: a mail of the bot could not be delivered: {}", key, detail)
        message = ChatMessage(
            chat_key=key,
            message_id="",
            sender=Sender(""),
            segments=(Notice("undelivered", detail=detail),),
            time=fetched.arrived,
            account=box.id,
        )
        await accept_patiently(self._host.accept, message)


def _id_of(fetched: FetchedMail, mail: Mail) -> str:
    return mail.message_id or f"<uid.{fetched.uid}.{fetched.arrived:.0f}>"


def _ids(thread: Thread | None) -> tuple[str, ...]:
    return thread.ids if thread is not None else ()
