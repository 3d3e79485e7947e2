"""Lets the AI keep notes of a chat and its people, and find them again."""

from datetime import UTC, datetime
from pathlib import Path

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx, ChatNote

plugin = NekroPlugin(
    name="Memory",
    module_name="memory",
    description="Remember what was said: notes of the chat and its people.",
    version="0.1.0",
    author="nekro",
    is_builtin=True,
)


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL,
    "remember",
    "Keep a note for later conversations in this chat.",
    confirms=True,
    examples=Path(__file__).with_name("examples") / "remember.txt",
)
async def remember(_ctx: AgentCtx, text: str, about: str | None = None) -> str:
    """Keep a note for later: what somebody asks to remember, a lasting fact, a decision.

    Args:
        text: One sentence that is clear without the conversation.
        about: Id or name of the person; None for the chat.

    Returns:
        The note's number.

    Example:
        remember("cannot eat nuts", about="10001")
    """
    note = await _ctx.memory.remember(text, about=about or "")
    return f"noted as {note.note_id}"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "forget", "Delete a note.", confirms=True)
async def forget(_ctx: AgentCtx, note_id: int) -> str:
    """Delete a note that is wrong or not wanted. A changed fact is only remembered anew.

    Args:
        note_id: The note's number.

    Returns:
        What was deleted.
    """
    note = await _ctx.memory.forget(note_id)
    return f"deleted: {note.text}"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "find_notes", "Search the notes of this chat.")
async def find_notes(_ctx: AgentCtx, words: str = "", about: str | None = None) -> list[str]:
    """Search all notes, also corrected ones. The newest ones are in the prompt already.

    Args:
        words: Empty for the newest.
        about: Id or name of a person.

    Returns:
        The notes, the best first.
    """
    found = await _ctx.memory.find(words, about=about or "")
    if not found and words:
        raise ToolFailure(f"find_notes: no note has a word of {words!r}; find_messages may")
    return [_line(each) for each in found]


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, "search_knowledge", "Look something up in the documents here."
)
async def search_knowledge(_ctx: AgentCtx, words: str) -> list[str]:
    """Look something up in the operator's and this chat's documents. Name the source in the answer.

    Args:
        words: What to look for.

    Returns:
        Pieces, each with file, page and heading.
    """
    found = await _ctx.memory.search_knowledge(words)
    if not found:
        raise ToolFailure(f"search_knowledge: no document has a word of {words!r}")
    return [f"[{each.source}] {each.text}" for each in found]


def _line(note: ChatNote) -> str:
    about = f"about {note.about_name or note.about_id}, " if note.about_id else ""
    if note.about_id and note.said_by not in ("", note.about_id):
        about += f"said by {note.said_by}, "
    ended = f", not any more since {_day(note.until)}" if note.until else ""
    return f"{note.note_id}: {note.text} ({about}since {_day(note.since)}{ended})"


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
