"""Ends a reply at a stop text, for protocols whose requests cannot contain stop texts."""

from collections.abc import Sequence


class StopCutter:
    """Passes a streamed text on until one of the texts ``stops`` appears in it. ``reached`` is true
    as soon as one of them has appeared. If the text so far ends with what may be the beginning of a
    stop text, this end is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [each for each in stops if each]
        self._held = ""
        self.reached = False

    def feed(self, text: str) -> str:
        """Add text. Return the part that can be passed on now."""
        if not self._stops or self.reached:
            return "" if self.reached else text
        self._held += text
        places = [place for each in self._stops if (place := self._held.find(each)) >= 0]
        if places:
            self.reached = True
            return self._held[: min(places)]
        keep = max(map(self._beginning, self._stops))
        passed, self._held = (
            self._held[: len(self._held) - keep],
            self._held[len(self._held) - keep :],
        )
        return passed

    def finish(self) -> str:
        """Return the text that was held back. Call this at the end of the stream, when no stop can
        follow."""
        return "" if self.reached else self._held

    def _beginning(self, stop: str) -> int:
        """Return how many characters at the end of the held text are the beginning of a stop."""
        most = min(len(stop) - 1, len(self._held))
        return next((size for size in range(most, 0, -1) if self._held.endswith(stop[:size])), 0)
