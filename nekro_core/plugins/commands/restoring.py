"""Questions of commands that an earlier process asked."""

import json
from contextlib import suppress

from loguru import logger

from nekro_core.chat import ChatKey, Text
from nekro_core.plugins.authoring.command_response import Question
from nekro_core.plugins.commands.book import CommandRegistry
from nekro_core.plugins.commands.call import ContextFactory
from nekro_core.plugins.commands.pending_questions import PendingQuestions, TooManyQuestions
from nekro_core.store import WaitingRow
from nekro_core.tools.outcome import ToolFailure

_TOLD_LATE_S = 3600.0
"""A question whose time ran out while the bot was away is only closed with its sentence if that is
not longer ago."""


async def restore_questions(
    waits: PendingQuestions, book: CommandRegistry, context_for: ContextFactory
) -> set[int]:
    """See `CommandRouter.restore`."""
    rows, answers = await waits.left()
    for row in rows:
        try:
            await _restore(row, waits, book, context_for)
        except (LookupError, ValueError, TypeError, TooManyQuestions) as error:
            logger.warning("nobody waits any more for {}: {}", row.data, error)
            await waits.forget_row(row)
    return answers


async def _restore(
    row: WaitingRow, waits: PendingQuestions, book: CommandRegistry, context_for: ContextFactory
) -> None:
    known, chat = json.loads(row.data), ChatKey.parse(row.chat_key)
    command, said = str(known["command"]), str(known["said"])
    of_plugin = (entry for entry in book if entry.owner == row.plugin)
    entry = next((each for each in of_plugin if each.command.name == command), None)
    if entry is None or entry.plugin is None:
        raise LookupError(f"there is no command {command} of {row.plugin}")

    async def late() -> None:
        if said:
            ctx = context_for(chat, user_id=row.user_id, user_name="", message_id="")
            with suppress(ToolFailure):
                await ctx.called_for(row.plugin, given="").send((Text(said),))

    seconds = waits.remaining(row)
    if seconds > 0:
        question = Question(
            callback_cmd=command,
            options=tuple(known["options"]),
            timeout=seconds,
            context_data=known["context"],
        )
        after = int(known["after"])
        waits.open(chat, row.user_id, entry, question, late, said=said, after=after)
        return
    await waits.forget_row(row)
    if seconds > -_TOLD_LATE_S:
        await late()
