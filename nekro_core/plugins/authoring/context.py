"""`AgentCtx`, the object that the bot passes to a plugin's function when it calls that function. It
says who asks in which chat, and has methods that act there."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, assert_never

import anyio

from nekro_core.chat import (
    ChatKey,
    ChatKeyError,
    ChatKind,
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
from nekro_core.chat.mentions import text_segments
from nekro_core.delivery.errors import DeliveryError
from nekro_core.delivery.media_contract import Expected
from nekro_core.media.errors import MediaError
from nekro_core.memory.search.finder import BadSearch, MessageQuery
from nekro_core.plugins.authoring.binding import current_owner, effective_binding
from nekro_core.plugins.authoring.call import CallFiles, running_call
from nekro_core.plugins.authoring.chat_network import fetch_scope, host_named_by_code, with_fetched
from nekro_core.plugins.authoring.files import BoxFileSystem, is_url
from nekro_core.plugins.authoring.find_in_chat import find_message, find_person
from nekro_core.plugins.authoring.found_messages import (
    FoundMessage,
    MessageMatches,
    media_of,
    path_in_box,
)
from nekro_core.plugins.authoring.host_files import HostFiles
from nekro_core.plugins.authoring.live_message import FollowableValue, LiveMessage, Render
from nekro_core.plugins.authoring.memory import ChatMemory
from nekro_core.plugins.authoring.services import (
    BoxFiles,
    ModelEndpoints,
    Services,
    UsageMeter,
)
from nekro_core.plugins.authoring.web import is_no_chat
from nekro_core.sandbox.box import BoxFileError
from nekro_core.sandbox.tools import handle_tool_call
from nekro_core.tools.content import Content, ImageContent, contents
from nekro_core.tools.outcome import (
    BehaviorReturn,
    Observation,
    Outcome,
    RichObservation,
    ToolCallFailed,
    ToolFailure,
    ToolReturn,
    ToolReturnMedia,
)

LONGER_SIDE = 1568
"""Maximum number of pixels of a picture's longer side. Model providers scale larger pictures down,
so a larger picture only costs more."""

_MAX_RECORDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCtx:
    """The context of a call of a plugin's function. The bot makes one for each run, and copies it
    for each call of the run. The model cannot set any of its fields.

    Attributes:
        services: The parts of the bot that the context's methods use.
        chat: The chat of the call.
        from_user_id: The platform's id of the person who asked; empty if there is none, as for a
            timer.
        from_user_name: The name of that person; may be empty.
        run_id: The id of the run whose code makes the call; empty if no run does.
        owner: The key of the plugin that is called.
        box: The files of the box in which the run's code is; None if there is no box.
    """

    services: Services = field(repr=False, compare=False)
    chat: ChatKey
    from_user_id: str = ""
    from_user_name: str = ""
    message_id: str = ""
    """The platform's id of the message that the agent answers."""
    run_id: str = ""
    owner: str = ""
    box: BoxFiles | None = field(default=None, repr=False, compare=False)
    webhook_request: Any = field(default=None, repr=False, compare=False)
    """The HTTP request, in a webhook's call; otherwise None."""
    files: CallFiles = field(default_factory=CallFiles, repr=False, compare=False)
    """The facts about this call that the file functions use."""
    asked_in: ChatKey | None = None
    """If a tool made this context with `for_chat`: the chat of the tool's call. None otherwise."""
    meter: UsageMeter | None = field(default=None, repr=False, compare=False)
    """Counts the turn's requests to models; None if there is no turn."""

    @property
    def chat_key(self) -> str:
        """The chat key as a text."""
        return str(self.chat)

    @property
    def adapter_key(self) -> str:
        """The name of the adapter that serves the chat."""
        return self.services.adapter_of(self.chat.instance)

    @property
    def channel_id(self) -> str:
        """The chat's kind and the platform's id of the chat: ``group_30003``."""
        return self.chat_key.partition("-")[2]

    @property
    def channel_type(self) -> str:
        """The chat's kind: ``group``, ``private`` or ``channel``."""
        return self.chat.kind.value

    @property
    def channel_name(self) -> str:
        """The name of the group or channel; in a private chat, the name of the person. If the name
        is not known, the platform's id of the chat."""
        person = self.from_user_name if self.chat.kind is ChatKind.PRIVATE else ""
        return self.services.chat_name(self.chat) or person or self.chat.native_id

    @property
    def fs(self) -> BoxFileSystem:
        """The files of the run's box."""
        services = self.services
        mirror = HostFiles(
            services.data_dir, self.chat, self.owner, self.files, services.shared_bytes
        )
        return BoxFileSystem(self.box, services.media, self.chat, mirror, self.chat.file_name)

    @property
    def memory(self) -> ChatMemory:
        """The notes of the chat and of its people."""
        return ChatMemory(self)

    @property
    def models(self) -> ModelEndpoints:
        """The language models. ``ctx.models.role("quick")`` is the model for background work, None
        if the operator configured none; its requests count for the turn and for the role's daily
        budget.

        Raises:
            ToolFailure: The bot has no models for plugins.
        """
        if self.services.models is None:
            raise ToolFailure("this bot has no models for plugins")
        return self.services.models

    @classmethod
    async def create_by_chat_key(cls, chat_key: str, *, webhook_request: Any = None) -> "AgentCtx":
        """Make a context for a chat when no person asks: in timers, routes and tasks.

        Args:
            chat_key: The text form of the chat's key.
            webhook_request: The HTTP request, in a webhook's call.

        Returns:
            The context. If a tool call runs now, the context may write to the same chats as the
            call.

        Raises:
            ChatKeyError: The text is not a chat key.
            RuntimeError: The calling code was not called by a bot.
        """
        return cls.for_chat(ChatKey.parse(chat_key), webhook_request=webhook_request)

    @classmethod
    def for_chat(cls, chat: ChatKey, *, webhook_request: Any = None) -> "AgentCtx":
        """Make a context as `create_by_chat_key` does.

        Args:
            chat: The chat's key.
            webhook_request: The HTTP request, in a webhook's call.

        Returns:
            The context.

        Raises:
            RuntimeError: The calling code was not called by a bot.
        """
        binding = effective_binding()
        if binding is None or binding.services is None:
            raise RuntimeError(
                "no bot runs here: make a context in a function that a bot calls (a tool, a hook, "
                "a command, a task)"
            )
        call = running_call()
        calling = call if isinstance(call, AgentCtx) else None
        owner = current_owner()
        make: Callable[..., AgentCtx] = binding.make_context or cls
        return make(
            services=binding.services,
            chat=chat,
            webhook_request=webhook_request,
            # A tool can name any chat. Copy the fields that decide where it may write, so that the
            # new context does not allow more than the context of the call.
            owner=calling.owner if calling else owner.key if owner else "",
            asked_in=calling.asked_in or calling.chat if calling else None,
            files=calling.files if calling else CallFiles.now(),
        )

    def called_for(self, owner: str, given: object = (), *, by_code: bool = False) -> "AgentCtx":
        """Copy the context for one call of a plugin.

        Args:
            owner: The plugin's key.
            given: The arguments that the model wrote, or the text of a person's command. No text in
                them is accepted as a path of the host.
            by_code: Whether code in the chat's box wrote ``given``. If so, hosts that ``given``
                names are reached only if the box's network rules allow it.

        Returns:
            The copy. This context does not change.
        """
        return replace(self, owner=owner, files=CallFiles.now(given, by_code=by_code))

    async def send(
        self, segments: Sequence[Segment], *, chat_key: ChatKey | str | None = None
    ) -> tuple[Receipt, ...]:
        """Send segments to a chat.

        Args:
            segments: The segments in order. The bot may split them into several platform calls.
            chat_key: The chat; None for the current chat. Another chat needs the operator's
                permission.

        Returns:
            A receipt for each platform call. Do not send a part again whose receipt has the state
            ``unknown`` or ``pending``.

        Raises:
            ToolFailure: The platform refused, the message was dropped, a medium in the segments
                cannot be fetched, or the other chat is not allowed.
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
        chat_key: ChatKey | str | None = None,
        reply_to: str = "",
    ) -> tuple[Receipt, ...]:
        """Send a text.

        Args:
            content: The text; ``[@id:10001@]`` in it is a mention.
            chat_key: As for `send`.
            reply_to: The platform's id of the message that is answered; empty for none.

        Returns:
            As of `send`.

        Raises:
            ToolFailure: As of `send`, or the text is empty.
        """
        if not content.strip():
            raise ToolFailure("the text is empty: there is nothing to send")
        words = text_segments(content)
        return await self.send((*_reply(reply_to), *words), chat_key=chat_key)

    async def send_image(
        self,
        file_path: str | bytes | Path,
        *,
        chat_key: ChatKey | str | None = None,
        reply_to: str = "",
    ) -> tuple[Receipt, ...]:
        """Send a picture.

        Args:
            file_path: A path in the box or a URL (``str``), bytes, or the plugin's own file on the
                host (`pathlib.Path`; never build it from the model's text).
            chat_key: As for `send`.
            reply_to: The platform's id of the message that is answered; empty for none.

        Returns:
            As of `send`.

        Raises:
            ToolFailure: As of `send`, or the source is not a picture or cannot be read or fetched.
        """
        medium = await self.medium(file_path, expect="image")
        return await self.send((*_reply(reply_to), Image(medium)), chat_key=chat_key)

    async def send_file(
        self,
        file_path: str | bytes | Path,
        *,
        name: str = "",
        chat_key: ChatKey | str | None = None,
    ) -> tuple[Receipt, ...]:
        """Send a file that people can download.

        Args:
            file_path: As for `send_image`, but a file of any type.
            name: What people see; empty for the last part of ``file_path``.
            chat_key: As for `send`.

        Returns:
            As of `send`.

        Raises:
            ToolFailure: As of `send`, or the file cannot be read or fetched.
        """
        medium = await self.medium(file_path, name=name)
        return await self.send((File(medium),), chat_key=chat_key)

    async def send_voice(self, wav: bytes, *, text: str = "") -> tuple[Receipt, ...]:
        """Send a voice message to the current chat, converted to the platform's format.

        Args:
            wav: A WAV file of 16-bit PCM, or any sound that can be decoded here (Ogg, MP3, M4A,
                AMR, SILK).
            text: The spoken words; may be empty.

        Returns:
            As of `send`.

        Raises:
            ToolFailure: As of `send`, or the bytes are not a sound that can be decoded.
        """
        medium = await self.medium(wav, name="voice.wav", expect="audio")
        return await self.send((Voice(medium, text),))

    async def show(
        self, value: FollowableValue, *, render: Render | None = None
    ) -> tuple[Receipt, ...]:
        """Show a cell or a computed value (`nekro_core.reactive`) in the current chat until it is
        final.

        If the platform can edit messages, one message is sent and edited when the value changes, as
        often as the platform allows. Otherwise one message is sent at the end. If this call is
        cancelled, the message is not changed any more.

        Args:
            value: The value to follow.
            render: Makes a text or segments from the value. Nothing is shown while the value is
                None or the result is empty.

        Returns:
            The receipts of the sent messages.

        Raises:
            ToolFailure: As of `send`. If the value fails, its own error is raised.
        """
        return await LiveMessage(self.chat, self.send, self.services.editor, render).follow(value)

    async def medium(
        self, source: str | bytes | Path, *, name: str = "", expect: Expected = "file"
    ) -> Media:
        """Store a copy of a picture, sound or file in the media store.

        Args:
            source: A path in the box or a URL (``str``), bytes, or the plugin's own file
                (`pathlib.Path`).
            name: What people see; empty for the last part of the path.
            expect: The required type: ``image``, ``audio`` or ``video``; ``file`` accepts any type.

        Returns:
            The copy, with its path on the host.

        Raises:
            ToolFailure: The source cannot be read or fetched, or has another type. The text says
                why.
        """
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
        """Replace each picture in a tool's outcome by a copy if code in the chat's box wrote its
        URL. The bot fetches the copy under the network rules of the box. Without the copy, the
        model's provider would fetch the URL for the code, without any rules.

        Args:
            outcome: The tool's outcome.

        Returns:
            The outcome with the copies; an outcome without pictures unchanged.

        Raises:
            ToolFailure: A picture cannot be fetched or shown.
        """
        match outcome:
            case RichObservation(parts):
                return RichObservation(tuple([await self._copied(part) for part in parts]))
            case ToolReturnMedia(media=media):
                copies = [
                    replace(each, content=await self._copied(each.content))
                    if each.content is not None
                    else each
                    for each in media
                ]
                return replace(outcome, media=tuple(copies))
            case ToolReturn() | BehaviorReturn() | Observation() | ToolCallFailed():
                return outcome
            case _:
                assert_never(outcome)

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
        """Make an ``image_url`` part from a picture. The picture is decoded and encoded again in a
        child process.

        Args:
            picture: The picture's bytes.
            longer_side: The largest number of pixels that the picture's longer side may have.

        Returns:
            ``{"type": "image_url", "image_url": {"url": "data:..."}}``.

        Raises:
            ToolFailure: The bytes are not a picture that can be shown, or the bot cannot convert
                pictures.
        """
        copies = self.services.pictures
        if copies is None:
            raise ToolFailure("this bot cannot convert pictures")
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
        """Add a system line to a chat's history.

        Args:
            message: The text of the line.
            trigger_agent: Whether the agent answers the line.
            chat_key: As for `send`.

        Raises:
            ToolFailure: The other chat is not allowed.
        """
        await self.services.journal.note(
            self.allowed_chat(chat_key), message, run_id=self.run_id, trigger=trigger_agent
        )

    async def sandbox_tool(self, tool: str, /, **given: Any) -> dict[str, Any]:
        """Call one of the eight tools for the chat's named boxes (`nekro_core.sandbox.tools`). The
        name of a box always means a box of this chat, so a chat cannot use another chat's boxes.

        Args:
            tool: The tool's name.
            **given: Its arguments.

        Returns:
            The value of the tool's result. A failed command is a result with its ``exit_code``.

        Raises:
            ToolFailure: The tool failed (the text has code and reason), or the bot has no boxes.
        """
        if self.services.pool_of is None:
            raise ToolFailure("there are no sandboxes here")
        done = await handle_tool_call(self.services.pool_of(self.chat), tool, given)
        value = done.value
        if error := value.get("error"):
            raise ToolFailure(f"{error['code']}: {error['message']}")
        return value

    async def known_person(self, wanted: str) -> Mention:
        """Find the person with a user id or a name.

        Args:
            wanted: The id or name; searched in the newest 500 records of the chat.

        Returns:
            A mention of the person.

        Raises:
            ToolFailure: No person has that id or name; the text names some known people.
        """
        records = await self.recent_records(_MAX_RECORDS)
        return find_person(records, wanted, Mention(self.from_user_id, self.from_user_name))

    async def known_message(self, wanted: str) -> str:
        """Find a message by its id.

        Args:
            wanted: The platform's id; searched in the newest 500 records of the chat.

        Returns:
            The message's id.

        Raises:
            ToolFailure: There is no such message. The text names the newest messages.
        """
        return find_message(await self.recent_records(_MAX_RECORDS), wanted, self.message_id)

    async def recent_records(self, limit: int = 20) -> list[Record]:
        """Get the newest records of the chat, back to the last reset of its conversation.

        Args:
            limit: How many records, 1 to 500. A smaller number counts as 1, a larger one as 500.

        Returns:
            The records, oldest first.
        """
        return await self.services.journal.newest(self.chat, max(1, min(limit, _MAX_RECORDS)))

    async def find_messages(
        self,
        words: str = "",
        *,
        who: str = "",
        since: str = "",
        until: str = "",
        kind: str = "",
        limit: int = 10,
    ) -> MessageMatches:
        """Search the messages of the chat, back to the last reset of its conversation. Recalled,
        hidden and erased messages are never found.

        Args:
            words: A question or words, in any language. Empty for the newest messages that fit the
                other arguments.
            who: The id or name of a person of the chat, or ``you`` for the bot's own messages.
            since: A date such as ``2025-03-08``, or with a time as ``2025-03-08T21:14``.
            until: A date in the same form. Without a time it means the end of that day.
            kind: ``image``, ``voice``, ``video``, ``file``, ``link`` or ``forward``.
            limit: Maximum number of messages, 1 to 50.

        Returns:
            The messages, best first. Their files are copied into the box, if there is one.

        Raises:
            ToolFailure: An argument cannot be used, or the bot has no search.
        """
        search = self.services.search
        if search is None:
            raise ToolFailure("this bot cannot search messages")
        query = MessageQuery(words=words, who=who, since=since, until=until, kind=kind, limit=limit)
        try:
            found = await search.find(self.chat, query)
        except BadSearch as error:
            raise ToolFailure(str(error)) from None
        messages = [await self._found(record) for record in found.records]
        return MessageMatches(
            messages=tuple(messages), incomplete=found.incomplete, weak=found.weak
        )

    async def _found(self, record: Record) -> FoundMessage:
        search = self.services.search
        assert search is not None, "it found the record"
        answers = await search.answered_by(record)
        files = [path for medium in media_of(record.segments) if (path := await self._put(medium))]
        return FoundMessage(
            record=record,
            number=record.seq,
            written=search.local_time(record.time),
            answers=answers,
            files=tuple(files),
        )

    async def _put(self, medium: Media) -> str:
        """Copy a received medium into the box. Returns its path there; empty if it was not
        copied."""
        path = path_in_box(medium)
        if self.box is None:
            return path
        if self.services.bring_media is not None:
            await self.services.bring_media(medium.path)
        try:
            data = await anyio.Path(medium.path).read_bytes()
            await self.box.write_file(path, data, read_only=True)
        except (OSError, BoxFileError):
            return ""  # The file was deleted because it was old, or it does not fit into the box.
        return path

    def allowed_chat(self, chat_key: ChatKey | str | None) -> ChatKey:
        """Check that this call may act in a chat. The call of a webhook may act in every chat.

        Args:
            chat_key: The chat key or its text form; None for the call's own chat, which is always
                allowed.

        Returns:
            The chat's key.

        Raises:
            ToolFailure: The text is not a chat key, the operator has not allowed the plugin to
                write to that chat (``NEKRO_PLUGIN__MAY_SEND_ELSEWHERE``), or this is the call of a
                webhook, which has no chat, and ``chat_key`` is None.
        """
        if chat_key is None:
            chat_key = self.chat
        try:
            key = ChatKey.parse(chat_key) if isinstance(chat_key, str) else chat_key
        except ChatKeyError as error:
            raise ToolFailure(str(error)) from None
        home = self.asked_in or self.chat
        if is_no_chat(home):  # In a webhook's call, the plugin chooses the chat, and not a model.
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
