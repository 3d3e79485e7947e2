"""Provides the names that plugins for nekro-agent promise to the model. The box of a chat has the
variable ``_ck``, the functions ``send_msg_text`` and ``send_msg_file``, and the folder
``./shared``."""

from pathlib import PurePosixPath

from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.host.kinds import BoxExtras
from nekro_core.tools.describe import describe
from nekro_core.tools.tool import Tool, ToolKind, Visibility

_OWNER = "nekro_agent"
_PICTURES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"}


def box_extras(ctx: AgentCtx) -> BoxExtras:
    """The variable ``_ck``, which is the chat key, and the link ``shared`` to the home folder of
    the box, where the files are."""
    return BoxExtras(values={"_ck": ctx.chat_key}, links={"shared": "."})


async def send_msg_text(
    _ctx: AgentCtx, chat_key: str, message_text: str, ref_msg_id: str | None = None
) -> None:
    """Send a text to a chat.

    Args:
        chat_key: The text form of the chat's key.
        message_text: The text. ``[@id:10001@]`` in it is a mention.
        ref_msg_id: The platform's id of the message to reply to.
    """
    await _ctx.send_text(message_text, chat_key=chat_key, reply_to=ref_msg_id or "")


async def send_msg_file(
    _ctx: AgentCtx, chat_key: str, file_path: str, ref_msg_id: str | None = None
) -> None:
    """Send a file to a chat; a picture as a picture.

    Args:
        chat_key: The text form of the chat's key.
        file_path: A path in the box, or a URL.
        ref_msg_id: The platform's id of the message to reply to, for a picture.
    """
    if PurePosixPath(file_path.partition("?")[0]).suffix.lower() in _PICTURES:
        await _ctx.send_image(file_path, chat_key=chat_key, reply_to=ref_msg_id or "")
    else:
        await _ctx.send_file(file_path, chat_key=chat_key)


def box_tools() -> tuple[Tool, ...]:
    """The two functions as tools that the prompt does not list."""
    described = [
        describe(
            function,
            ToolKind.TOOL,
            name=function.__name__,
            module="basic",
            owner=_OWNER,
            visibility=Visibility.UNLISTED,
        )
        for function in (send_msg_text, send_msg_file)
    ]
    return tuple(each.tool for each in described if each.tool is not None)
