"""Shows the boxes of a chat with their files, and ends them."""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, SecretStr

from nekro_core.agent.turn.boxes import ChatBoxes
from nekro_core.chat import ChatKey
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.elsewhere import ProcessChoice
from nekro_core.operator.errors import InvalidParameters, NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.sandbox.named import NamedBox, UseEffect

BoxName = Annotated[str, Field(min_length=1, max_length=100)]
BoxPath = Annotated[str, Field(min_length=1, max_length=1000)]
MAX_FILE_BYTES = 16 * 1024 * 1024
"""Maximum size of a file that is read from a box. A file written through the HTTP API may have at
most 3 MB, because a request may have at most 4 MiB."""
_MOST_FILES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxView:
    """A box of a chat.

    Attributes:
        name: Its name. The code of the chat's answers runs in ``default``.
        image: The image from which it was made.
        awake: Whether its processes run. A box that sleeps has only its files.
        in_use: Whether code or a tool uses it now.
        memory: Its memory in bytes, measured while it was idle; 0 if it sleeps.
    """

    name: str
    image: str
    awake: bool
    in_use: bool
    memory: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxFilesView:
    """The paths of the files in a box. ``truncated`` says that there are more."""

    paths: list[str]
    truncated: bool


class Boxes(Area):
    """The boxes of chats.

    Args:
        audit: The audit log.
        boxes: The boxes of all chats.
    """

    name = "boxes"

    def __init__(self, audit: AuditLog, boxes: ChatBoxes) -> None:
        super().__init__(audit)
        self._boxes = boxes

    @query(role=AccessRole.VIEWER, process=ProcessChoice.OWNER)
    async def of_chat(self, actor: Actor, *, chat_key: ChatKey) -> list[BoxView]:  # noqa: ARG002
        """List the boxes of a chat. No box is woken.

        Args:
            chat_key: The chat.
        """
        owned = self._boxes.named.of(str(chat_key))
        found = []
        for listed in await owned.list():
            named = await owned.find(listed.name)
            found.append(
                BoxView(
                    name=listed.name,
                    image=listed.image,
                    awake=listed.running,
                    in_use=named is not None and named.in_use,
                    memory=named.idle_bytes if named is not None else 0,
                )
            )
        return found

    @query(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def files(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        box: BoxName = "default",
        pattern: BoxPath = "**",
    ) -> BoxFilesView:
        """List the files in a box. A sleeping box is woken.

        Args:
            chat_key: The chat.
            box: The box's name.
            pattern: Which files: ``**`` for all, ``*.csv`` for those at the top with this ending.
        """
        await self._known(chat_key, box)
        async with self._boxes.named.of(str(chat_key)).use(box, UseEffect.NOTHING) as used:
            found = await used.box.glob(pattern, limit=_MOST_FILES)
        return BoxFilesView(paths=[*found.paths], truncated=found.truncated)

    @action(role=AccessRole.OPERATOR, takes_file=True, process=ProcessChoice.OWNER)
    async def put_file(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        path: BoxPath,
        content: SecretStr,
        box: BoxName = "default",
    ) -> Change[int]:
        """Write a file into a box. A sleeping box is woken, and a file of this path is replaced.
        Returns the size of the file.

        Args:
            chat_key: The chat.
            path: Where the file is in the box.
            content: The file in base64. It is not written into the audit log.
            box: The box's name.
        """
        try:
            data = base64.b64decode(content.get_secret_value(), validate=True)
        except (binascii.Error, ValueError):
            raise InvalidParameters({"content": "no base64; encode the file in base64"}) from None
        await self._known(chat_key, box)
        async with self._boxes.named.of(str(chat_key)).use(box, UseEffect.FILES) as used:
            size = await used.box.write_file(path, data)
        return Change(result=size, subject=f"{chat_key} {box}:{path}", new=f"{size} bytes")

    @action(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def sleep(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        box: BoxName = "default",
    ) -> Change[bool]:
        """Put a box to sleep: its files are saved and its processes end. The next use wakes it.
        Returns False if it is in use or sleeps already.

        Args:
            chat_key: The chat.
            box: The box's name.
        """
        named = await self._known(chat_key, box)
        slept = named.running and not named.in_use and await named.sleep()
        return Change(result=slept, subject=f"{chat_key} {box}")

    @action(role=AccessRole.OPERATOR, destructive=True, process=ProcessChoice.OWNER)
    async def end(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        box: BoxName = "default",
    ) -> Change[None]:
        """End a box and delete its files. The next use makes an empty box.

        Args:
            chat_key: The chat.
            box: The box's name.
        """
        await self._known(chat_key, box)
        await self._boxes.named.of(str(chat_key)).destroy(box)
        return Change(result=None, subject=f"{chat_key} {box}")

    @query(role=AccessRole.OPERATOR, process=ProcessChoice.OWNER)
    async def get_file(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        path: BoxPath,
        box: BoxName = "default",
    ) -> str:
        """Read a file of a box, of at most 16 MiB. A sleeping box is woken. Returns the file in
        base64.

        Args:
            chat_key: The chat.
            path: Where the file is in the box.
            box: The box's name.
        """
        await self._known(chat_key, box)
        async with self._boxes.named.of(str(chat_key)).use(box, UseEffect.NOTHING) as used:
            data = await used.box.read_file(path, limit=MAX_FILE_BYTES)
        return base64.b64encode(data).decode()

    async def read_file(self, actor: Actor, chat_key: ChatKey, box: str, path: str) -> bytes:
        """Read a file of a box, for a page that lets people download it. A sleeping box is woken.

        Args:
            actor: Who asks.
            chat_key: The chat.
            box: The box's name.
            path: Where the file is in the box.

        Returns:
            The bytes.

        Raises:
            NoSuchItem: There is no such box.
            BoxFileError: There is no such file, or it is too large.
            ProcessAway: The worker that owns the chat does not answer.
            RefusedElsewhere: In a cluster, in place of `BoxFileError`.
        """
        found = await self.get_file(actor, chat_key=chat_key, box=box, path=path)
        return base64.b64decode(found)

    async def _known(self, chat_key: ChatKey, box: str) -> NamedBox:
        found = await self._boxes.named.of(str(chat_key)).find(box)
        if found is None:
            raise NoSuchItem(f"the chat {chat_key} has no box {box[:100]!r}")
        return found
