"""Prints the results of the scenarios with the stored replies.

python -m tests.e2e.scenarios.table [--subject files] [--only 6,7] [--wording abc]
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio

from tests.e2e.scenarios.played import StoredReplies, play, told
from tests.e2e.scenarios.replies import ModelReply, ReplyKey, read_replies
from tests.e2e.scenarios.scene import Outcome
from tests.e2e.scenarios.subjects import SUBJECTS


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a table with one line for each outcome, and the number of outcomes of each kind."""
    lines = [f"{'scenario':<9} {'mode':<6} {'calls':>5} {'could':>5} {'tokens':>7}  judged"]
    for each in outcomes:
        line = f"{each.number:>3} {each.wording:<5} {each.mode:<6} {each.calls:>5} {each.could:>5}"
        lines.append(f"{line} {each.tokens:>7,}  {each.judged}{_why(each)}")
    counts = {
        judged: sum(each.judged == judged for each in outcomes)
        for judged in ("ok", "flawed", "failed")
    }
    lines.append(f"in all wordings: {', '.join(f'{n} {judged}' for judged, n in counts.items())}")
    worst = {
        number: [each for each in outcomes if each.number == number]
        for number in sorted({each.number for each in outcomes})
    }
    well = sum(all(not each.faults for each in some) for some in worst.values())
    reached = sum(all(each.calls <= each.could for each in some) for some in worst.values())
    lines.append(
        f"{len(worst)} scenarios: {well} without a failure in any wording, "
        f"{reached} with no more calls than they could in every wording"
    )
    return "\n".join(lines)


def _why(outcome: Outcome) -> str:
    return f"  ({outcome.why})" if outcome.why else ""


def all_replies() -> dict[ReplyKey, list[ModelReply]]:
    """Return the stored replies of all subjects."""
    replies: dict[ReplyKey, list[ModelReply]] = {}
    for each in SUBJECTS:
        replies |= read_replies(each.name)
    return replies


async def print_table(subject: str, only: set[int], wordings: str) -> None:
    """Play the chosen conversations, and print the table."""
    replies = all_replies()
    chosen = [
        conversation
        for each in SUBJECTS
        if subject in ("", each.name)
        for conversation in each.conversations
        if not only or only & set(conversation.numbers)
    ]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        outcomes = await play(Path(folder), chosen, wordings, StoredReplies(replies))
    print(table(outcomes))
    print(told(outcomes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subject", default="", help="the name of a subject")
    parser.add_argument("--only", default="", help="numbers of scenarios, such as 6,7")
    parser.add_argument("--wording", default="abc", help="letters of the wordings")
    arguments = parser.parse_args()
    only = {int(each) for each in arguments.only.split(",") if each}
    anyio.run(print_table, arguments.subject, only, arguments.wording)


if __name__ == "__main__":
    main()
