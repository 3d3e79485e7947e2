"""Shows the model the code of its earlier turns. People refer to this code: "make it slower", "how
did you compute that?". The message that the code sent does not contain the answer."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nekro_core.agent.prompt.quoting import quote_lines
from nekro_core.agent.prompt.transcript import json_quoted, shortened
from nekro_core.chat import Author, Record, RunRecord

_CODE = 700
"""Maximum number of characters of a run's code. Longer code is cut in the middle."""
_OUTPUT = 400
"""Maximum number of characters of a run's output, and of its error."""
_RUNS = 3
"""Maximum number of runs of one turn that are shown. Earlier runs of the turn are left out."""
_FILES = 8
"""Maximum number of file names that are added because the cut removed them from the code."""
_TURNS = 4
"""Number of turns whose runs are shown when the window of the history (the records that prompts
show) moves. Until the window moves again, turns are only added: removing a turn would change the
prompt in the middle, and a provider's cache would be lost."""
_PARSED = 20_000
"""Characters. Longer code is not parsed to find out whether it only sends words. It is shown."""
_REMEMBERED = 400
"""Characters. For code up to this length it is remembered whether it only sends words: a window has
hundreds of such runs, and parsing them for each prompt would take milliseconds."""
_FILE = re.compile(r"""["']((?:[\w.-]+/|/)*[\w-][\w.-]*\.[A-Za-z]\w{0,4})["']""")
_SENDS = ("send_channel_message",)


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    """The lines about the code of one turn; empty if the turn's code only sent words. ``run_ids``
    are the turn's runs."""

    run_ids: tuple[str, ...]
    lines: str


def write_turn(runs: Sequence[RunRecord]) -> WrittenTurn:
    """Write the lines about the runs of one turn."""
    return WrittenTurn(tuple(run.run_id for run in runs), run_lines(runs))


def runs_before(
    records: Sequence[Record], turns: Sequence[WrittenTurn], *, moved: int
) -> Mapping[int, str]:
    """Return lines about the runs of earlier turns. The key is the number of the record before
    which the lines are shown. This record is the first message of the turn.

    Args:
        records: The window of the history.
        turns: The lines of each turn that sent a message of the window.
        moved: The number of the newest record when the window last moved. Of the turns that sent
            messages up to this record, only the last four are shown.
    """
    first: dict[str, int] = {}
    for record in records:
        if record.author is Author.BOT and record.run_id and not record.recalled:
            first.setdefault(record.run_id, record.seq)
    blocks: dict[int, str] = {}
    for turn in turns:
        if turn.lines and (seqs := [first[each] for each in turn.run_ids if each in first]):
            blocks[min(seqs)] = turn.lines
    kept = sorted(seq for seq in blocks if seq <= moved)[-_TURNS:]
    return {seq: block for seq, block in sorted(blocks.items()) if seq > moved or seq in kept}


def run_lines(runs: Sequence[RunRecord]) -> str:
    """Write the lines about the runs of one turn; empty if the runs only sent words."""
    shown = [run for run in runs if run.code.strip() and not _only_says(run)]
    return "\n".join(line for run in shown[-_RUNS:] for line in _lines(run))


def _lines(run: RunRecord) -> Iterator[str]:
    code = run.code.strip()
    yield "[ran] your code:"
    yield quote_lines(code, _CODE)
    cut = shortened(code, _CODE)
    lost = [name for name in dict.fromkeys(_FILE.findall(code)) if name not in cut]
    if lost:
        yield f"+ files in it: {', '.join(json_quoted(name, 80) for name in lost[:_FILES])}"
    if run.output.strip():
        yield "[output] printed by it:"
        yield quote_lines(run.output.strip(), _OUTPUT)
    if run.error.strip():
        yield "[error] It raised:"
        yield quote_lines(run.error.strip(), _OUTPUT)


def _only_says(run: RunRecord) -> bool:
    """Return True if the run only sent constant words. The history shows these words."""
    if run.output.strip() or run.error.strip() or len(run.code) > _PARSED:
        return False
    if len(run.code) > _REMEMBERED:
        return _code_only_says(run.code)
    return _short_code_only_says(run.code)


def _code_only_says(code: str) -> bool:
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return all(map(_is_saying, body))


_short_code_only_says = lru_cache(maxsize=1024)(_code_only_says)


def _is_saying(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value.value if isinstance(statement.value, ast.Await) else statement.value
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return False
    given = (*value.args, *(each.value for each in value.keywords))
    return value.func.id in _SENDS and all(isinstance(each, ast.Constant) for each in given)
