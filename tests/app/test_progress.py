"""A download's progress: a terminal shows one line that changes, a log gets a line now and then."""

import io

from nekro_core.app.progress import ProgressLine
from nekro_core.llm.embedded.weights import DownloadProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_that_changes() -> None:
    out = Terminal()
    line = ProgressLine(out)
    line.report(DownloadProgress(what="weights", done=0, total=4_000_000))
    line.report(
        DownloadProgress(what="weights", done=1_000_000, total=4_000_000)
    )  # a report so soon after the last one is not shown
    line.report(DownloadProgress(what="weights", done=4_000_000, total=4_000_000))
    line.report(DownloadProgress(what="checking", done=0, total=0))
    line.end()
    line.end()
    assert out.getvalue() == (
        "\r\033[Kweights  0 of 4 MB  0 %\r\033[Kweights  4 of 4 MB  100 %\n\r\033[Kchecking\n"
    )


def test_a_log_gets_only_a_few_lines_and_each_is_complete() -> None:
    out = io.StringIO()
    line = ProgressLine(out)
    for done in range(1001):
        line.report(DownloadProgress(what="weights", done=done * 1000, total=1_000_000))
    line.end()
    assert out.getvalue() == "weights  0 of 1 MB  0 %\nweights  1 of 1 MB  100 %\n"
