"""Shows what the bot keeps about a chat or a person, and erases people."""

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field, SecretStr

from nekro_core.agent.erasure.erasure import ErasureReport, PersonErasure
from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.chat import ChatKey
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.elsewhere import ProcessChoice
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.store import Store
from nekro_core.store.kept import KeptRows
from nekro_core.timers import TimerService

UserId = Annotated[str, Field(min_length=1, max_length=200)]


class MediaCounts(Protocol):
    """The stored media of chats (`nekro_core.delivery.media.store.MediaStore`)."""

    async def kept(self, chat_key: ChatKey) -> tuple[int, int]:
        """Count the media of a chat. Returns their number and their size in bytes."""


class ErasingSessions(Protocol):
    """The running turns (`nekro_core.agent.session.sessions.Sessions`)."""

    async def erase_person(self, chat_key: ChatKey, user_id: str) -> ErasureReport:
        """Erase a person of the chat's platform everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptView:
    """What the bot keeps about a chat.

    Attributes:
        rows: What is in the database.
        media: The number of stored pictures, voices, videos and files.
        media_bytes: Their size in bytes.
        boxes: The number of boxes.
        box_bytes: The stored size of the files of sleeping boxes, in bytes.
        timers: The number of timers.
    """

    rows: KeptRows
    media: int
    media_bytes: int
    boxes: int
    box_bytes: int
    timers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonKeptView:
    """What an erasure of a person would delete.

    Attributes:
        messages: Messages that the person wrote, in all chats of the platform.
        chats: Chats in which the person wrote or woke a turn.
        private_chats: Chats that would be deleted with everything in them.
        turns: Turns that the person woke.
        files: Stored files of the messages that would be deleted.
        boxes: Chats whose boxes would be deleted, since they may have files of the person.
        timers: Timers that would be deleted.
    """

    messages: int
    chats: int
    private_chats: int
    turns: int
    files: int
    boxes: int
    timers: int


class Erasure(Area):
    """What the bot keeps about chats and people, and how people are erased.

    Args:
        audit: The audit log.
        store: The store.
        erasing: Finds the data of people.
        sessions: Stops the turns of people and then erases the people.
        media: The stored media of chats.
        boxes: The boxes of all chats.
        timers: The timers of all chats.
    """

    name = "erasure"

    def __init__(
        self,
        audit: AuditLog,
        *,
        store: Store,
        erasing: PersonErasure,
        sessions: ErasingSessions,
        media: MediaCounts,
        boxes: ChatBoxes,
        timers: TimerService,
    ) -> None:
        super().__init__(audit)
        self._store = store
        self._erasing = erasing
        self._sessions = sessions
        self._media = media
        self._boxes = boxes
        self._timers = timers

    @query(role=AccessRole.VIEWER, process=ProcessChoice.OWNER)
    async def kept(self, actor: Actor, *, chat_key: ChatKey) -> KeptView:  # noqa: ARG002
        """Count what the bot keeps about a chat.

        Args:
            chat_key: The chat.
        """
        media, media_bytes = await self._media.kept(chat_key)
        owned = self._boxes.named.of(str(chat_key))
        return KeptView(
            rows=await self._store.kept.of_chat(chat_key),
            media=media,
            media_bytes=media_bytes,
            boxes=len(await owned.list()),
            box_bytes=await owned.stored_bytes(),
            timers=len(self._timers.of_chat(chat_key)),
        )

    @query(role=AccessRole.OPERATOR)
    async def person(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        user_id: UserId,
    ) -> PersonKeptView:
        """Count what an erasure of a person would delete.

        Args:
            chat_key: A chat of the person's platform.
            user_id: The platform's id of the person.
        """
        traces = await self._erasing.look(self._erasing.person(chat_key, user_id))
        return PersonKeptView(
            messages=traces.messages,
            chats=len(traces.chats),
            private_chats=len(traces.private),
            turns=traces.turns,
            files=len({medium.path for _, medium in traces.media}),
            boxes=len(traces.with_boxes),
            timers=len(traces.timers),
        )

    @action(role=AccessRole.OPERATOR, destructive=True)
    async def erase_person(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        user_id: SecretStr,
    ) -> Change[ErasureReport]:
        """Erase a person of a platform: their messages, files, private chats and turns, in all
        chats of all accounts of the bot on this platform, and their id in the rows of other people.
        It cannot be undone. All chats wait while the database is rewritten. If the erasure was
        interrupted, start it again.

        Args:
            chat_key: A chat of the person's platform.
            user_id: The platform's id of the person. It is not written into the audit log.
        """
        report = await self._sessions.erase_person(chat_key, user_id.get_secret_value())
        counts = {
            "messages": report.messages,
            "chats": report.chats,
            "turns": report.turns,
            "files": report.files,
            "boxes": report.boxes,
        }
        return Change(result=report, new=counts)
