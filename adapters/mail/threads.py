"""Groups mails into threads, and stores what an answer needs to know of a thread.

The thread stands in each Message-ID of ours, so a program that repeats only the last id (Outlook)
finds back as well as one that repeats all.
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
"""Below the data folder: subjects and ids of mails, a file for each chat."""
KEPT_IDS = 20
"""Message-IDs that an answer refers to; RFC 5322 asks for all, programs look at the ends."""
KEPT_THREADS = 20_000
NO_THREAD = "0"
_OURS = re.compile(r"<nekro\.(0|[0-9a-f]{12})\.[0-9a-f]{16}@([^<>@\s]+)>")


@dataclass(frozen=True, slots=True)
class Thread:
    """What is known of one. ``ids`` are in the order of time."""

    subject: str
    ids: tuple[str, ...] = ()

    def with_id(self, message_id: str) -> "Thread":
        """It goes on."""
        ids = tuple(each for each in self.ids if each != message_id)
        first, rest = ids[:1], ids[1:]
        return Thread(self.subject, (*first, *rest[-(KEPT_IDS - 2) :], message_id))


async def forget_person(data_dir: Path, _person: Person, traces: PersonTraces) -> int:
    """Delete the threads of a person's private chats; an `AdapterEraser`. Raises `OSError`."""
    threads = ThreadStore(data_dir / FOLDER)
    return sum([await anyio.to_thread.run_sync(threads.forget, key) for key in traces.private])


def is_ours(message_id: str, domain: str) -> bool:
    """Whether the bot gave this id."""
    match = _OURS.fullmatch(message_id)
    return match is not None and match[2] == domain


def our_ids(text: str, domain: str) -> list[str]:
    """Every id in a text that the bot gave."""
    return [match[0] for match in _OURS.finditer(text) if match[2] == domain]


def new_id(thread: str | None, delivery_id: str, domain: str) -> str:
    """The same for the same delivery: programs show a mail that comes twice once."""
    token = hashlib.sha256(delivery_id.encode()).hexdigest()[:16]
    return f"<nekro.{thread or NO_THREAD}.{token}@{domain}>"


def thread_of(message_id: str, references: Iterable[str], domain: str) -> str | None:
    """The thread of a mail that refers to these; nothing for an answer to a mail of ours that
    belonged to none."""
    ids = [*references, message_id]
    for each in reversed(ids):
        if (match := _OURS.fullmatch(each)) and match[2] == domain:
            return None if match[1] == NO_THREAD else match[1]
    return hashlib.sha256(ids[0].encode(errors="replace")).hexdigest()[:12]


class ThreadStore:
    """One small file a thread. For worker threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, key: ChatKey) -> Thread | None:
        """What is known of a chat's thread."""
        try:
            stored = json.loads(self._path(key).read_text())
            return Thread(str(stored["subject"]), tuple(map(str, stored["ids"])))
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def write(self, key: ChatKey, thread: Thread) -> None:
        """Raises `OSError`."""
        stored = {"subject": thread.subject, "ids": thread.ids}
        write_whole(self._path(key), json.dumps(stored).encode())

    def forget(self, key: ChatKey) -> bool:
        """Delete what is known of a chat's thread. False where there is nothing."""
        path = self._path(key)
        known = path.exists()
        path.unlink(missing_ok=True)
        return known

    def prune(self, keep: int = KEPT_THREADS) -> None:
        """Forget the threads in which nothing was said for longest."""
        if not self._folder.is_dir():
            return
        aged = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in aged[keep:]:
            path.unlink(missing_ok=True)

    def _path(self, key: ChatKey) -> Path:
        return self._folder / f"{key.file_name}.json"
