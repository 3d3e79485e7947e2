"""`AgentCtx`: what a tool's handler is told of who asks and where, and its way back to them."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nekro_core.chat import (
    ChatKey,
    ChatKeyError,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Receipt,
    Record,
    Reply,
    Segment,
    Voice,
)
from nekro_core.compat.nekro_agent.agent_segments import text_segments
from nekro_core.compat.nekro_agent.context import LegacyContext
from nekro_core.delivery.errors import DeliveryError
from nekro_core.delivery.host import Expected
from nekro_core.media.errors import MediaError
from nekro_core.plugins.authoring.chat_network import fetch_scope, host_named_by_code, with_fetched
from nekro_core.plugins.authoring.files import BoxFileSystem, is_url
from nekro_core.plugins.authoring.find_in_chat import find_message, find_person
from nekro_core.plugins.authoring.host_files import CallFiles, HostFiles
from nekro_core.plugins.authoring.live_message import FollowableValue, LiveMessage, Render
from nekro_core.plugins.authoring.services import BoxFiles, Services, UsageMeter
from nekro_core.plugins.authoring.web import is_no_chat
from nekro_core.sandbox.tools import handle_tool_call
from nekro_core.tools.content import Content, ImageContent, contents
from nekro_core.tools.outcome import Outcome, RichObservation, ToolFailure, ToolReturnMedia

LONGER_SIDE = 1568
"""Pixels. Providers scale down what is larger, and it costs more on the way."""

_MAX_RECORDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCtx(LegacyContext):
    """Made by the host for each run and handed to every handler; nothing in it is the model's word.

    ``chat`` is where it happens, ``from_user_id`` the platform id of who asked (empty where nobody
    did, a timer for example), ``run_id`` the run whose code calls. ``owner`` is the key of the
    plugin that is called. ``box`` are the files of that run's box, where there is one.
    """

    services: Services = field(repr=False, compare=False)
    chat: ChatKey
    from_user_id: str = ""
    from_user_name: str = ""
    message_id: str = ""
    """The platform's id of the message that asks."""
    channel_name: str = ""
    run_id: str = ""
    owner: str = ""
    box: BoxFiles | None = field(default=None, repr=False, compare=False)
    webhook_request: Any = field(default=None, repr=False, compare=False)
    """The request that a webhook was called with; None elsewhere."""
    files: CallFiles = field(default_factory=CallFiles, repr=False, compare=False)
    """What this call has to do with files."""
    asked_in: ChatKey | None = None
    """The chat whose run made this context, where a run did."""
    meter: UsageMeter | None = field(default=None, repr=False, compare=False)
    """What the turn may use of models, where one asks."""

    @property
    def chat_key(self) -> str:
        """The key of the chat as text."""
        return str(self.chat)

    @property
    def from_chat_key(self) -> str:
        """The same."""
        return str(self.chat)

    @property
    def from_platform_userid(self) -> str:
        """The same as ``from_user_id``."""
        return self.from_user_id

    @property
    def adapter_key(self) -> str:
        """The adapter through which the chat is reached."""
        return self.services.adapter_of(self.chat.instance)

    @property
    def channel_id(self) -> str:
        """The chat's kind and the platform's id for it: ``group_30003``."""
        return self.chat_key.partition("-")[2]

    @property
    def channel_type(self) -> str:
        """``group``, ``private`` or ``channel``."""
        return self.chat.kind.value

    @property
    def fs(self) -> BoxFileSystem:
        """The files of the run's box."""
        services = self.services
        mirror = HostFiles(
            services.data_dir, self.chat, self.owner, self.files, services.shared_bytes
        )
        return BoxFileSystem(self.box, services.media, self.chat, mirror, self.container_key)

    def called_for(self, owner: str, given: object = (), *, by_code: bool = False) -> "AgentCtx":
        """The same context in the hands of one plugin. ``given`` is what the model, or who
        typed a command, wrote: none of it is a path of the host, and of what the chat's code wrote
        (``by_code``) no host is reached that its boxes may not reach."""
        return replace(self, owner=owner, files=CallFiles.now(given, by_code=by_code))

    async def send(
        self, segments: Sequence[Segment], *, chat_key: ChatKey | str | None = None
    ) -> tuple[Receipt, ...]:
        """Send segments to the chat that asks.

        A receipt may be ``unknown`` or still ``pending``; such a message must not be sent again.
        Raises `ToolFailure` where the platform refuses, where the message is dropped, and for
        another chat without the operator's permission.
        """
        chat = self.allowed_chat(chat_key)
        segments = await with_fetched(segments, self._from_web)
        try:
            receipts = await self.services.outgoing.send(chat, segments, run_id=self.run_id)
        except DeliveryError as error:
            raise ToolFailure(str(error)) from None
        for receipt in receipts:
            if receipt.state in (DeliveryState.REJECTED, DeliveryState.DROPPED):
                raise ToolFailure(f"the message was {receipt.state.value}: {receipt.reason}")
        return receipts

    async def send_text(
        self,
        content: str,
        *,
        record: bool = True,
        chat_key: ChatKey | str | None = None,
        reply_to: str = "",
    ) -> tuple[Receipt, ...]:
        """Send words, as an answer to the message ``reply_to``. ``[@id:10001@]`` is a mention.

        ``record`` is taken because existing plugins give it; what is sent is always in the chat's
        record. Raises as `send`, and `ToolFailure` for a text without words.
        """
        del record
        if not content.strip():
            raise ToolFailure("the text is empty: there is nothing to send")
        words = text_segments(content)
        return await self.send((*_reply(reply_to), *words), chat_key=chat_key)

    async def send_image(
        self,
        file_path: str | bytes | Path,
        *,
        record: bool = True,
        chat_key: ChatKey | str | None = None,
        reply_to: str = "",
    ) -> tuple[Receipt, ...]:
        """Send a picture: a box path or URL (``str``), the plugin's own bytes, or its own file
        (`pathlib.Path`, on the host: never made from what the model wrote)."""
        del record
        medium = await self.medium(file_path, expect="image")
        return await self.send((*_reply(reply_to), Image(medium)), chat_key=chat_key)

    async def send_file(
        self,
        file_path: str | bytes | Path,
        *,
        record: bool = True,
        name: str = "",
        chat_key: ChatKey | str | None = None,
    ) -> tuple[Receipt, ...]:
        """Send a file to keep; ``file_path`` as for `send_image`."""
        del record
        medium = await self.medium(file_path, name=name)
        return await self.send((File(medium),), chat_key=chat_key)

    async def send_voice(self, wav: bytes, *, text: str = "") -> tuple[Receipt, ...]:
        """Send a voice message and what is said in it: a WAV file of 16-bit PCM, or any sound that
        can be decoded here (Ogg, MP3, M4A, AMR, SILK). The platform gets the format it wants."""
        medium = await self.medium(wav, name="voice.wav", expect="audio")
        return await self.send((Voice(medium, text),))

    async def show(
        self, value: FollowableValue, *, render: Render | None = None
    ) -> tuple[Receipt, ...]:
        """Post a cell's or computed value to the chat that asks, and follow it until it is final.

        Where the platform lets messages be changed there is one that changes with the value, at the
        platform's pace; elsewhere one is sent at the end. ``render`` makes a text or segments of
        the value; None and what is empty is not shown. Raises as `send`, and what the value failed
        with. Whoever is cancelled leaves the message as it is.
        """
        return await LiveMessage(self.chat, self.send, self.services.editor, render).follow(value)

    async def medium(
        self, source: str | bytes | Path, *, name: str = "", expect: Expected = "file"
    ) -> Media:
        """Our own kept copy of a picture, sound or file. Raises `ToolFailure` with the reason."""
        keeper = self.services.media
        if is_url(source):
            with fetch_scope(self.asked_in or self.chat, self.files):
                medium = await keeper.keep_url(self.chat, source, name=name, expect=expect)
        else:
            if not isinstance(source, bytes):
                name = name or str(source).replace("\\", "/").split("/")[-1]
            data = await self.fs.read(source)
            medium = await keeper.keep_bytes(self.chat, data, name=name, expect=expect)
        if medium.problem:
            raise ToolFailure(medium.problem)
        return medium

    async def shown(self, outcome: Outcome) -> Outcome:
        """What a tool made, with copies of the pictures whose addresses the chat's code named: a
        model's provider would fetch them for it. Raises `ToolFailure`."""
        match outcome:
            case RichObservation(parts):
                return RichObservation(tuple([await self._copied(part) for part in parts]))
            case ToolReturnMedia(text, media):
                copies = [
                    replace(each, content=await self._copied(each.content))
                    if each.content is not None
                    else each
                    for each in media
                ]
                return ToolReturnMedia(text, tuple(copies))
        return outcome

    async def _copied(self, content: Content) -> Content:
        if not isinstance(content, ImageContent) or not host_named_by_code(content.url):
            return content
        part = await self.picture_part(await self.fs.fetch(content.url))
        (copy,) = contents([part])
        return copy

    async def _from_web(self, media: Media) -> Media:
        return await self.medium(media.url, name=media.name)

    async def picture_part(
        self, picture: bytes, *, longer_side: int = LONGER_SIDE
    ) -> dict[str, Any]:
        """Somebody's picture as an ``image_url`` part: upright, its longer side at most so many
        pixels, decoded and encoded afresh in a process of its own. Raises `ToolFailure` for what is
        no picture that can be shown."""
        copies = self.services.pictures
        if copies is None:
            raise ToolFailure("pictures cannot be looked at here")
        try:
            made = await copies.picture_to_show(picture, longer_side=longer_side)
        except MediaError as error:
            raise ToolFailure(str(error)) from None
        url = f"data:{made.mime};base64,{base64.b64encode(made.data).decode()}"
        return {"type": "image_url", "image_url": {"url": url}}

    async def push_system(
        self,
        message: str,
        trigger_agent: bool = False,
        *,
        chat_key: ChatKey | str | None = None,
    ) -> None:
        """Add a system line to the chat's record; with ``trigger_agent`` the agent answers it."""
        await self.services.journal.note(
            self.allowed_chat(chat_key), message, run_id=self.run_id, trigger=trigger_agent
        )

    async def sandbox_tool(self, tool: str, /, **given: Any) -> dict[str, Any]:
        """One of the eight tools on the chat's own boxes, whose names are the chat's alone: what
        its result holds (`nekro_core.sandbox.tools`).

        A command that failed is a result with its ``exit_code``. Raises `ToolFailure` with code
        and reason where the tool could not do what was asked, and where there are no boxes.
        """
        if self.services.pool_of is None:
            raise ToolFailure("there are no sandboxes here")
        done = await handle_tool_call(self.services.pool_of(self.chat), tool, given)
        value = done.value
        if error := value.get("error"):
            raise ToolFailure(f"{error['code']}: {error['message']}")
        return value

    async def known_person(self, wanted: str) -> Mention:
        """A mention of who is meant by a user id or a name. Raises `ToolFailure` for nobody who is
        among the newest 500 records of the chat, with some of those who are."""
        records = await self.recent_records(_MAX_RECORDS)
        return find_person(records, wanted, Mention(self.from_user_id, self.from_user_name))

    async def known_message(self, wanted: str) -> str:
        """A message id, if the newest 500 records of the chat have it. Raises `ToolFailure` with
        the newest messages."""
        return find_message(await self.recent_records(_MAX_RECORDS), wanted, self.message_id)

    async def recent_records(self, limit: int = 20) -> list[Record]:
        """The newest records of the chat since its conversation last began, at most 500, oldest
        first."""
        return await self.services.journal.newest(self.chat, max(1, min(limit, _MAX_RECORDS)))

    def allowed_chat(self, chat_key: ChatKey | str | None) -> ChatKey:
        """A chat in which this call may do something: None and its own always, another one with
        the operator's permission. Raises `ToolFailure`."""
        if chat_key is None:
            chat_key = self.chat
        try:
            key = ChatKey.parse(chat_key) if isinstance(chat_key, str) else chat_key
        except ChatKeyError as error:
            raise ToolFailure(str(error)) from None
        home = self.asked_in or self.chat
        if is_no_chat(home):  # The plugin itself speaks, and no chat's model through it.
            if is_no_chat(key):
                raise ToolFailure("a webhook has no chat: say which one, with chat_key=...")
            return key
        if key != home and self.owner not in self.services.may_send_elsewhere:
            raise ToolFailure(
                f"{key} is another chat than {home}: the operator has not allowed "
                f"{self.owner or 'this'} to write there (NEKRO_PLUGIN__MAY_SEND_ELSEWHERE)"
            )
        return key


def _reply(message_id: str) -> tuple[Segment, ...]:
    return (Reply(message_id),) if message_id else ()
