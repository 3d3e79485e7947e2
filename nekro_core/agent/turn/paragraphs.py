"""Finds the finished paragraphs of a text while it is written."""

import re

_FENCE = re.compile(r"[ \t]{0,12}(?P<fence>`{3,}|~{3,})")
_ANNOUNCES = (":", "：")
_CODE = re.compile(
    r"(?:import |from [\w.]+ import|await |async |def |class |for |while |with |try:|print\b"
    r"|[A-Za-z_][\w.]*\(|[A-Za-z_]\w* ?[-+*/]?= ?\S)"
)


class Paragraphs:
    """The text of one reply so far, and how much of it is finished.

    A paragraph is finished at the empty line after it. A heading and a line that ends with a colon
    belong to the next paragraph. Empty lines inside a fenced block do not end a paragraph.
    """

    def __init__(self) -> None:
        self.text = ""
        self.finished = 0
        """The number of characters up to the end of the last finished paragraph."""
        self.whole_lines = 0
        """The number of characters up to the end of the last line that may be sent. Such a line is
        complete, is not inside a fence, and does not announce the next line."""
        self._line = 0
        self._fence = ""
        self._last = ""

    def write(self, text: str) -> None:
        """Add the next piece of the reply."""
        self.text += text
        while (end := self.text.find("\n", self._line)) >= 0:
            self._end_line(self.text[self._line : end], end + 1)
            self._line = end + 1

    def _end_line(self, line: str, end: int) -> None:
        found = _FENCE.match(line)
        if self._fence:
            if found and found["fence"].startswith(self._fence) and not line.strip(" \t`~"):
                self._fence, self.whole_lines = "", end
                self._last = line
            return
        if found:
            self._fence = found["fence"]
            return
        if line.strip():
            self._last = line.strip()
        elif self._last and not self._announces():
            self.finished = end
            self._last = ""
        if not self._announces():
            self.whole_lines = end

    def _announces(self) -> bool:
        return self._last.startswith("#") or self._last.endswith(_ANNOUNCES)


def looks_like_code(beginning: str) -> bool:
    """Return whether a text without a fence begins like Python code."""
    return _CODE.match(beginning.lstrip()) is not None
