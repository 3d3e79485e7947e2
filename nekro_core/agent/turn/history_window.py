"""Cuts a chat's history to the window that prompts show, and adds lines about the code that the bot
ran in earlier turns."""

from collections.abc import Mapping
from dataclasses import replace

from nekro_core.agent.prompt.line_marks import with_tasks
from nekro_core.agent.prompt.own_runs import WrittenTurn, runs_before, write_turn
from nekro_core.agent.prompt.prompt import PromptView
from nekro_core.agent.prompt.steps import shown_records
from nekro_core.agent.prompt.window import HistoryWindows, Window, window_begin
from nekro_core.agent.prompt.written_window import WrittenWindow, WrittenWindows
from nekro_core.agent.settings import PromptSettings
from nekro_core.chat import Author, Record
from nekro_core.llm.model import ModelProfile
from nekro_core.llm.tokens import estimate_tokens
from nekro_core.store.runs import MOST_RUNS, RunRepository

_SHARE = 4
"""The history gets at most the model's context divided by this number: a quarter."""
_NO_TURN = WrittenTurn((), "")


async def in_window(
    view: PromptView,
    *,
    runs: RunRepository,
    windows: HistoryWindows,
    written: WrittenWindows,
    settings: PromptSettings,
    profile: ModelProfile,
) -> PromptView:
    """Return the view with the records that fit into the window, and with the lines about the runs
    of earlier turns. The window's beginning is remembered for the chat's next prompt. Raises
    `StoreError`."""
    before, newest = windows.of(view.chat_key), view.records[-1].seq
    previous = written.of(view.chat_key, view.zone, view.own_accounts)
    first = _first_records(view)
    turns = await _earlier_turns(first, previous, runs)

    def blocks(moved: int) -> Mapping[int, str]:
        return runs_before(view.records, [*dict.fromkeys(turns.values())], moved=moved)

    moved = before.moved or newest
    ran, marked = blocks(moved), previous.marked.next(view.records)
    marks = with_tasks(
        view.records,
        marked.numbers,
        unanswered=view.unanswered,
        waiting=view.waiting,
        reasons=view.reasons,
    )
    view = replace(view, written=previous.lines_of(view.records))
    lines = shown_records(view, view.records, marks, settings.message_chars)
    written.note(
        view.chat_key,
        WrittenWindow(
            zone=view.zone,
            own=previous.own,
            marked=marked,
            lines={each.seq: (each, line) for each, line in zip(view.records, lines, strict=True)},
            turns=_finished_turns(view, first, turns),
        ),
    )
    tokens = {seq: estimate_tokens(block) for seq, block in ran.items()}
    costs = [each.tokens + tokens.get(each.seq, 0) + 1 for each in lines]
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
    return replace(
        view,
        records=records or view.records[-1:],
        ran=ran,
        written={each.seq: each for each in lines},
        marks=marks if len(records) == len(view.records) else (),
    )


def _first_records(view: PromptView) -> dict[str, Record]:
    """Return the first record that each run of an earlier turn sent, by run id. Of more runs than
    `MOST_RUNS`, only the last ones are returned."""
    first: dict[str, Record] = {}
    for record in view.records:
        if record.author is Author.BOT and record.run_id and record.run_id not in view.run_ids:
            first.setdefault(record.run_id, record)
    return dict([*first.items()][-MOST_RUNS:])


async def _earlier_turns(
    first: Mapping[str, Record], previous: WrittenWindow, runs: RunRepository
) -> dict[str, WrittenTurn]:
    """Return the lines about the turns that sent messages of the history, by run id. ``first`` has
    the first record of each run. Only turns that are not in ``previous`` are read."""
    turns = {
        run_id: turn for run_id, each in first.items() if (turn := previous.turn_of(run_id, each))
    }
    missing = [run_id for run_id in first if run_id not in turns]
    for found in await runs.of_same_turns(missing):
        turn = write_turn(found)
        turns |= {run_id: turn for run_id in turn.run_ids if run_id in first}
    # A run without a turn has no lines. Remember this too, so that it is not looked for again.
    return {**dict.fromkeys(missing, _NO_TURN), **turns}


def _finished_turns(
    view: PromptView, first: Mapping[str, Record], turns: Mapping[str, WrittenTurn]
) -> dict[str, tuple[Record, WrittenTurn]]:
    """Return the turns that are over, with the first record of each run. Later prompts may use
    their lines again. A turn that was interrupted by a restart may go on, so its lines may change.
    Its messages come after the questions that it answers."""
    asked = min(view.unanswered, default=0)
    return {run_id: (each, turns[run_id]) for run_id, each in first.items() if each.seq < asked}
