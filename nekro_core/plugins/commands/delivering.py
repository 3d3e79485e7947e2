"""A command's answer on its way to the chat."""

from collections.abc import Sequence
from pathlib import Path

from nekro_core.chat import File, Image, Segment, Text
from nekro_core.chat.catalogue.languages import get_text
from nekro_core.plugins.authoring.command_response import (
    CommandOutputSegment,
    CommandOutputType,
    CommandResponse,
)
from nekro_core.plugins.authoring.context import AgentCtx


async def send_response(ctx: AgentCtx, response: CommandResponse, lang: str) -> None:
    """Send an answer to the chat that asked. Raises `ToolFailure` where it cannot be."""
    segments: list[Segment] = []
    if text := get_text(response.message, "", lang).strip():
        segments.append(Text(text))
    segments += [await _segment(ctx, part) for part in response.output_segments]
    if response.question and (listed := numbered(response.question.options)):
        segments.append(Text(listed if segments else listed.strip()))
    if segments:
        await ctx.send(segments)


def numbered(options: Sequence[str]) -> str:
    """Options as people see them, each in its line, with a line break before the first."""
    return "".join(f"\n{number}. {option}" for number, option in enumerate(options, 1))


async def _segment(ctx: AgentCtx, part: CommandOutputSegment) -> Segment:
    kind = CommandOutputType(part.type)
    if kind is CommandOutputType.TEXT:
        return Text(part.text)
    source: str | Path = Path(part.file_path) if part.file_path else part.web_url
    if kind is CommandOutputType.IMAGE:
        return Image(await ctx.medium(source, name=part.file_name, expect="image"))
    return File(await ctx.medium(source, name=part.file_name))
