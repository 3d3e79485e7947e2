"""What a command answers."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from nekro_core.chat.catalogue.languages import I18nDict


class CommandOutputType(StrEnum):
    """What one piece of an answer is."""

    TEXT = "text"
    IMAGE = "image"
    FILE = "file"


class CommandOutputSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of an answer.

    Attributes:
        type: Whether it is a text, a picture or a file.
        text: The words.
        file_path: A file of the plugin on the host. Never make it from what a person wrote.
        file_name: What people see.
        mime_type: The media type.
        web_url: The address that is fetched if there is no ``file_path``.
    """

    type: CommandOutputType | str = CommandOutputType.TEXT
    text: str = ""
    file_path: str = ""
    file_name: str = ""
    mime_type: str = ""
    web_url: str = ""


Content = str | I18nDict | Sequence[CommandOutputSegment]
"""A text, a text in several languages, or pieces."""


class CommandStatus(StrEnum):
    """What became of a command."""

    MESSAGE = "message"
    SUCCESS = "success"
    FAILED = "failed"
    WAITING = "waiting"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a command. The person's next message goes to ``callback_cmd``. If none comes in
    ``timeout`` seconds, ``on_timeout_message`` is sent to the chat."""

    callback_cmd: str
    options: tuple[str, ...] = ()
    timeout: float = 60.0
    on_timeout_message: str | I18nDict = ""
    context_data: Mapping[str, Any] = msgspec.field(default_factory=dict)


class CommandResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One answer; made by `CmdCtl`.

    Attributes:
        status: What became of the command.
        message: The text, or one by BCP 47 tag.
        output_segments: The pieces, if it is not only a text.
        data: For a program that called the command.
        question: The question, if it waits for an answer.
    """

    status: CommandStatus = CommandStatus.MESSAGE
    message: str | I18nDict = ""
    output_segments: tuple[CommandOutputSegment, ...] = ()
    data: Any = None
    question: Question | None = None


class CmdCtl:
    """Makes answers. A command returns one, or as an async generator yields several."""

    @staticmethod
    def message(content: Content, *, data: Any = None) -> CommandResponse:
        """Say something, for example during the work.

        Args:
            content: A text, a text by BCP 47 tag, or pieces.
            data: For whoever called the command by program.

        Returns:
            The answer.

        Raises:
            TypeError: A piece is no `CommandOutputSegment`.
        """
        return _response(CommandStatus.MESSAGE, content, data)

    @staticmethod
    def success(content: Content, *, data: Any = None) -> CommandResponse:
        """Say that it is done.

        Args:
            content: A text, a text by BCP 47 tag, or pieces.
            data: For whoever called the command by program.

        Returns:
            The answer.

        Raises:
            TypeError: A piece is no `CommandOutputSegment`.
        """
        return _response(CommandStatus.SUCCESS, content, data)

    @staticmethod
    def failed(content: Content, *, data: Any = None) -> CommandResponse:
        """Say that it cannot be done, and why.

        Args:
            content: A text, a text by BCP 47 tag, or pieces.
            data: For whoever called the command by program.

        Returns:
            The answer.

        Raises:
            TypeError: A piece is no `CommandOutputSegment`.
        """
        return _response(CommandStatus.FAILED, content, data)

    @staticmethod
    def wait(
        message: Content,
        callback_cmd: str,
        options: Sequence[str] | None = None,
        timeout: float = 60.0,
        on_timeout_message: str | I18nDict = "",
        context_data: Mapping[str, Any] | None = None,
    ) -> CommandResponse:
        """Ask, and hand the person's next message in this chat to a command of the same plugin.
        Another command of the person ends the waiting.

        Args:
            message: The question: a text, a text by BCP 47 tag, or pieces.
            callback_cmd: The command that gets the message as its arguments.
            options: Shown with numbers. A number as answer chooses that option.
            timeout: Seconds to wait.
            on_timeout_message: What the chat is told if no answer comes in time.
            context_data: ``callback_cmd`` gets the values whose names are those of its parameters.

        Returns:
            The answer.

        Raises:
            TypeError: A piece is no `CommandOutputSegment`.
        """
        question = Question(
            callback_cmd=callback_cmd,
            options=tuple(map(str, options or ())),
            timeout=timeout,
            on_timeout_message=on_timeout_message,
            context_data=dict(context_data or {}),
        )
        return _response(CommandStatus.WAITING, message, None, question)


def _response(
    status: CommandStatus, content: Content, data: Any, question: Question | None = None
) -> CommandResponse:
    if isinstance(content, str | dict):
        return CommandResponse(status=status, message=content, data=data, question=question)
    segments = tuple(content)
    for segment in segments:
        if not isinstance(segment, CommandOutputSegment):
            raise TypeError(
                f"a piece of a command's answer is a {type(segment).__name__}: "
                "expected CommandOutputSegment"
            )
    return CommandResponse(status=status, output_segments=segments, data=data, question=question)
