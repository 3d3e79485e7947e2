"""``limited_run_code`` and the values around it: plugins run code in the box of a chat."""

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
"""Characters of the output, unless the plugin wants another number."""


class ParsedCodeRunData(BaseModel):
    """A model's reply, taken apart: the whole text, its code, and the model's thoughts."""

    raw_content: str = ""
    code_content: str = ""
    thought_chain: str = ""


def parse_chat_response(response: str) -> ParsedCodeRunData:
    """Find the code of a reply as the bot itself finds it. A reply without a block of code has no
    code."""
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
    """Run code in the box of a chat, with all tools that the chat has. It is stored and bounded
    like the code of a reply.

    Args:
        code_run_data: The code is its ``code_content``.
        from_chat_key: The chat; empty for that of ``ctx``, of ``chat_message`` or of the call.
        output_limit: Characters of the returned output. The middle of a longer one is cut out.
        chat_message: The message that asks. The code acts for its author.
        ctx: The context of the call, if the plugin has one.

    Returns:
        What the code printed, with the error that ended it; the same uncut; why it ended.

    Raises:
        ToolFailure: There is no box; or the chat's own code waits for this call, and the box runs
            one piece of code at a time; or a tool may not act in this chat.
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
