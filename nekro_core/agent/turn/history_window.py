"""Cuts a chat's history to the window that prompts show, and adds lines about the code that the bot
ran in earlier turns."""

from collections.abc import Mapping
from dataclasses import replace

from nekro_core.agent.prompt.own_runs import runs_before
from nekro_core.agent.prompt.prompt import PromptView
from nekro_core.agent.prompt.steps import shown_records
from nekro_core.agent.prompt.window import HistoryWindows, Window, window_begin
from nekro_core.agent.settings import PromptSettings
from nekro_core.chat import Author
from nekro_core.llm.model import ModelProfile
from nekro_core.llm.tokens import estimate_tokens
from nekro_core.store.runs import RunRepository

_SHARE = 4
"""The history gets at most the model's context divided by this number: a quarter."""


async def in_window(
    view: PromptView,
    *,
    runs: RunRepository,
    windows: HistoryWindows,
    settings: PromptSettings,
    profile: ModelProfile,
) -> PromptView:
    """Return the view with the records that fit into the window, and with the lines about the runs
    of earlier turns. The window's beginning is remembered for the chat's next prompt. Raises
    `StoreError`."""
    before, newest = windows.of(view.chat_key), view.records[-1].seq
    sent = dict.fromkeys(
        record.run_id
        for record in view.records
        if record.author is Author.BOT and record.run_id not in view.run_ids
    )
    turns = await runs.of_same_turns([each for each in sent if each])

    def blocks(moved: int) -> Mapping[int, str]:
        return runs_before(view.records, turns, moved=moved)

    moved = before.moved or newest
    ran, marks = blocks(moved), view.marks_of(view.records)
    lines = shown_records(view, view.records, marks, settings.message_chars)
    costs = [
        estimate_tokens(each.line) + estimate_tokens(ran.get(each.seq, "")) + 1 for each in lines
    ]
    begin = window_begin(
        [record.seq for record in view.records],
        costs,
        begin=before.begin,
        most_tokens=min(settings.history_tokens, profile.context_tokens // _SHARE),
        most=settings.history,
    )
    if before.begin and begin > before.begin:
        moved = newest
        ran = blocks(moved)
    windows.note(view.chat_key, Window(begin, moved))
    records = [
        record
        for record in view.records
        if record.seq >= begin or record.seq in view.unanswered or record.seq in view.waiting
    ]
    written = {each.seq: each for each in lines}
    return replace(view, records=records or view.records[-1:], ran=ran, written=written)
