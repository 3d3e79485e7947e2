"""Groups mails into threads, and stores the subject and the Message-IDs of each thread.

Each Message-ID that the bot makes contains the thread's id. So a mail that answers the bot is
assigned to its thread even if the mail program (Outlook) repeats only the last Message-ID.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from nekro_core.api.adapter import Person, PersonTraces, write_whole
from nekro_core.api.chat import ChatKey

FOLDER = Path("mail", "threads")
"""The folder below the data folder that has one file for each chat."""
KEPT_IDS = 20
"""Maximum number of Message-IDs that an answer refers to. RFC 5322 asks for all of them, but mail
programs use only the first and the last ones."""
KEPT_THREADS = 20_000
NO_THREAD = "0"
"""The place of the thread's id in the Message-ID of a mail that belongs to no thread."""
_OURS = re.compile(r"<nekro\.(0|[0-9a-f]{12})\.[0-9a-f]{16}@([^<>@\s]+)>")


@dataclass(frozen=True, slots=True)
class Thread:
    """The subject of a thread and the Message-IDs of its mails, oldest first."""

    subject: str
    ids: tuple[str, ...] = ()

    def with_id(self, message_id: str) -> "Thread":
        """Return the thread with ``message_id`` at its end. Of more than `KEPT_IDS` ids, the first
        and the last ones are kept."""
        ids = tuple(each for each in self.ids if each != message_id)
        first, rest = ids[:1], ids[1:]
        return Thread(self.subject, (*first, *rest[-(KEPT_IDS - 2) :], message_id))


async def forget_person(data_dir: Path, _person: Person, traces: PersonTraces) -> int:
    """Delete the stored threads of a person's private chats. Raises `OSError`. This function is an
    `AdapterEraser`."""
    threads = ThreadStore(data_dir / FOLDER)
    return sum([await anyio.to_thread.run_sync(threads.forget, key) for key in traces.private])


def is_ours(message_id: str, domain: str) -> bool:
    """Return True if the bot made this Message-ID."""
    match = _OURS.fullmatch(message_id)
    return match is not None and match[2] == domain


def our_ids(text: str, domain: str) -> list[str]:
    """Return all Message-IDs in a text that the bot made."""
    return [match[0] for match in _OURS.finditer(text) if match[2] == domain]


def new_id(thread: str | None, delivery_id: str, domain: str) -> str:
    """Make the Message-ID of a delivery. The same delivery always gets the same Message-ID, so that
    mail programs show a mail only once even if it arrives twice."""
    token = hashlib.sha256(delivery_id.encode()).hexdigest()[:16]
    return f"<nekro.{thread or NO_THREAD}.{token}@{domain}>"


def thread_of(message_id: str, references: Iterable[str], domain: str) -> str | None:
    """Return the thread of a mail, found by the Message-IDs that the mail refers to. None if it
    answers a mail of the bot that belonged to no thread. A mail that answers no mail of the bot
    gets a thread that is made from its first reference, or else from its own Message-ID."""
    ids = [*references, message_id]
    for each in reversed(ids):
        if (match := _OURS.fullmatch(each)) and match[2] == domain:
            return None if match[1] == NO_THREAD else match[1]
    return hashlib.sha256(ids[0].encode(errors="replace")).hexdigest()[:12]


class ThreadStore:
    """Stores one small file for each thread. The methods block: call them in worker threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: ChatKey) -> Thread | None:
        """Return the stored thread of a chat; None if none is stored or its file is invalid."""
        try:
            stored = json.loads(self._path(key).read_text())
            return Thread(str(stored["subject"]), tuple(map(str, stored["ids"])))
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def write(self, key: ChatKey, thread: Thread) -> None:
        """Store the thread of a chat. Raises `OSError`."""
        stored = {"subject": thread.subject, "ids": thread.ids}
        write_whole(self._path(key), json.dumps(stored).encode())

    def forget(self, key: ChatKey) -> bool:
        """Delete the stored thread of a chat. False if none was stored."""
        path = self._path(key)
        known = path.exists()
        path.unlink(missing_ok=True)
        return known

    def prune(self, keep: int = KEPT_THREADS) -> None:
        """Delete all files except those of the ``keep`` threads that were written last."""
        if not self._folder.is_dir():
            return
        aged = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in aged[keep:]:
            path.unlink(missing_ok=True)

    def _path(self, key: ChatKey) -> Path:
        return self._folder / f"{key.file_name}.json"
