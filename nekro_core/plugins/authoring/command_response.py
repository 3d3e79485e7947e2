"""The answers of a command, and `CmdCtl`, which makes them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from nekro_core.chat.catalogue.languages import I18nDict


class CommandOutputType(StrEnum):
    """The type of one piece of an answer."""

    TEXT = "text"
    IMAGE = "image"
    FILE = "file"


class CommandOutputSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of an answer.

    Attributes:
        type: Whether the piece is a text, a picture or a file.
        text: The text of the piece.
        file_path: A file of the plugin on the host. Never build this path from a person's text.
        file_name: The name of the file for people.
        mime_type: The media type.
        web_url: The address from which the bot fetches the file if ``file_path`` is empty.
    """

    type: CommandOutputType | str = CommandOutputType.TEXT
    text: str = ""
    file_path: str = ""
    file_name: str = ""
    mime_type: str = ""
    web_url: str = ""


Content = str | I18nDict | Sequence[CommandOutputSegment]
"""One text, a dict of texts by BCP 47 language tag, or pieces."""


class CommandStatus(StrEnum):
    """The state of a command after this answer."""

    MESSAGE = "message"
    SUCCESS = "success"
    FAILED = "failed"
    WAITING = "waiting"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a command asks. The person's next message is passed to ``callback_cmd``. If
    the person sends no message within ``timeout`` seconds, ``on_timeout_message`` is sent to the
    chat."""

    callback_cmd: str
    options: tuple[str, ...] = ()
    timeout: float = 60.0
    on_timeout_message: str | I18nDict = ""
    context_data: Mapping[str, Any] = msgspec.field(default_factory=dict)


class CommandResponse(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of a command; made by `CmdCtl`.

    Attributes:
        status: The state of the command.
        message: The text, or a dict of texts by BCP 47 language tag.
        output_segments: The pieces, if the answer is more than a text.
        data: A value for a program that calls the command.
        question: The question, if the command waits for the person's reply.
    """

    status: CommandStatus = CommandStatus.MESSAGE
    message: str | I18nDict = ""
    output_segments: tuple[CommandOutputSegment, ...] = ()
    data: Any = None
    question: Question | None = None


class CmdCtl:
    """Makes answers. A command returns one answer; an async generator yields several."""

    @staticmethod
    def message(content: Content, *, data: Any = None) -> CommandResponse:
        """Make an answer that is neither success nor failure, for example a progress report.

        Args:
            content: A text, a dict of texts by BCP 47 tag, or `CommandOutputSegment` pieces.
            data: A value for a program that calls the command.

        Returns:
            The answer.

        Raises:
            TypeError: A piece is not a `CommandOutputSegment`.
        """
        return _response(CommandStatus.MESSAGE, content, data)

    @staticmethod
    def success(content: Content, *, data: Any = None) -> CommandResponse:
        """Make an answer that says that the command succeeded.

        Args:
            content: A text, a dict of texts by BCP 47 tag, or `CommandOutputSegment` pieces.
            data: A value for a program that calls the command.

        Returns:
            The answer.

        Raises:
            TypeError: A piece is not a `CommandOutputSegment`.
        """
        return _response(CommandStatus.SUCCESS, content, data)

    @staticmethod
    def failed(content: Content, *, data: Any = None) -> CommandResponse:
        """Make an answer that says that the command failed, and why.

        Args:
            content: A text, a dict of texts by BCP 47 tag, or `CommandOutputSegment` pieces.
            data: A value for a program that calls the command.

        Returns:
            The answer.

        Raises:
            TypeError: A piece is not a `CommandOutputSegment`.
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
        """Make an answer that asks a question. The person's next message in this chat is passed to
        another command of the same plugin. If the person runs a command instead, the question is
        dropped.

        Args:
            message: The question: a text, a dict of texts by BCP 47 tag, or `CommandOutputSegment`
                pieces.
            callback_cmd: The command that gets the message as its arguments.
            options: Choices, shown with numbers. If the person replies with the number or the text
                of an option, ``callback_cmd`` gets the option's text.
            timeout: Seconds to wait; at most as long as the operator's settings allow.
            on_timeout_message: The text that is sent to the chat if no reply comes in time.
            context_data: Values by name. ``callback_cmd`` gets each value whose name is one of its
                parameters.

        Returns:
            The answer.

        Raises:
            TypeError: A piece is not a `CommandOutputSegment`.
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
