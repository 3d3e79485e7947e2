"""Shows the progress of a download. A terminal has one line, which is updated; a log gets a line
every 10 s."""

import time
from typing import TextIO

from nekro_core.llm.embedded.weights import DownloadProgress

_REDRAW_S = 0.2
_LOG_S = 10.0


class ProgressLine:
    """Shows the progress of one download at a time."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._what = ""
        self._shown_at = 0.0

    def report(self, progress: DownloadProgress) -> None:
        """Show the progress, unless it was shown less than 0.2 s (on a terminal) or 10 s (in a log)
        ago."""
        now = time.monotonic()
        pause = _REDRAW_S if self._live else _LOG_S
        finished = progress.total > 0 and progress.done >= progress.total
        if progress.what == self._what and now - self._shown_at < pause and not finished:
            return
        if self._live and self._what and progress.what != self._what:
            self._out.write("\n")
        self._what, self._shown_at = progress.what, now
        text = progress.what
        if progress.total:
            share = 100 * progress.done / progress.total
            text += f"  {progress.done / 1e6:,.0f} of {progress.total / 1e6:,.0f} MB  {share:.0f} %"
        self._out.write(f"\r\033[K{text}" if self._live else f"{text}\n")
        self._out.flush()

    def share(self) -> None:
        """From now on, write whole lines as in a log, because other code writes to the terminal
        too."""
        self.end()
        self._live = False

    def end(self) -> None:
        """End the terminal's line, so that other output begins on a new line."""
        if self._live and self._what:
            self._out.write("\n")
        self._what = ""
