"""Offers ``limited_run_code``, with which plugins run code in the box of a chat, and the types of
its arguments."""

from typing import Any

from pydantic import BaseModel

from nekro_core.agent.turn.code_statements import CodeStatement
from nekro_core.agent.turn.code_stream import CodeStream
from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.compat.nekro_agent.plugin_run import Asker
from nekro_core.compat.nekro_agent.rows.plugin_data import ExecStopType, stop_type
from nekro_core.compat.nekro_agent.tools.common_util import limited_text_output
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.current import allowed_chat, current_call
from nekro_core.tools.outcome import ToolFailure

OUTPUT_CHARS = 4000
"""How many characters of the output are returned, unless the plugin gives another number."""


class ParsedCodeRunData(BaseModel):
    """The parts of a model's reply: the whole text, the code, and the model's thoughts, which
    `parse_chat_response` leaves empty."""

    raw_content: str = ""
    code_content: str = ""
    thought_chain: str = ""


def parse_chat_response(response: str) -> ParsedCodeRunData:
    """Find the code of a reply in the same way as the bot does. If the reply has no block of code,
    the code is empty."""
    stream = CodeStream()
    events = [*stream.feed(response), *stream.finish()]
    code = "".join(each.source for each in events if isinstance(each, CodeStatement))
    return ParsedCodeRunData(raw_content=response, code_content=code)


async def limited_run_code(
    code_run_data: ParsedCodeRunData,
    from_chat_key: str = "",
    output_limit: int = OUTPUT_CHARS,
    chat_message: Any = None,
    ctx: AgentCtx | None = None,
    **_: Any,
) -> tuple[str, str, ExecStopType]:
    """Run code in the box of a chat, with all tools that the chat has. The run is stored like the
    code of a reply and has the same limits.

    Args:
        code_run_data: Has the code to run, in ``code_content``.
        from_chat_key: The chat. If it is empty, the first of these is used: the chat of ``ctx``,
            the chat of ``chat_message``, the chat of the plugin's call.
        output_limit: Maximum number of characters of the shortened output. If the output is longer,
            its middle is left out.
        chat_message: The message that asks for the run. The code acts for the message's author.
        ctx: The context of the call, if the plugin has one.

    Returns:
        Three values: what the code printed and the error that ended it, shortened to
        ``output_limit``; the same text, not shortened; and why the run ended.

    Raises:
        ToolFailure: There is no box. Or code in this chat's box waits for the tool that makes this
            call: the box runs one piece of code at a time. Or a tool may not act in this chat.
    """
    host, call = current_host(), current_call()
    if host.code_runner is None:
        raise ToolFailure("this bot cannot run code for plugins")
    key = from_chat_key or (ctx.chat_key if ctx else getattr(chat_message, "chat_key", ""))
    chat = allowed_chat(key or (call.chat if call else ""))
    if call is not None and call.run_id and call.chat == chat:
        raise ToolFailure(
            f"limited_run_code: the code of {chat} waits for this tool, and its box runs one piece "
            "of code at a time: call it in a command or a hook, or return the code to the model"
        )
    run = await host.code_runner.run(chat, code_run_data.code_content, _asker(chat_message, ctx))
    stop = stop_type(run.result.stop)
    if stop is ExecStopType.AGENT and run.has_media:
        stop = ExecStopType.MULTIMODAL_AGENT
    return limited_text_output(run.output, output_limit), run.output, stop


def _asker(message: Any, ctx: AgentCtx | None) -> Asker:
    if message is not None:
        return Asker(
            user_id=str(getattr(message, "platform_userid", "") or message.sender_id),
            user_name=message.sender_nickname or message.sender_name,
            message_id=message.message_id,
        )
    known = ctx or current_call()
    if known is None:
        return Asker()
    return Asker(
        user_id=known.from_user_id, user_name=known.from_user_name, message_id=known.message_id
    )
