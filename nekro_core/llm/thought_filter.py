"""Removes the thoughts that a model writes into its reply."""

_OPEN = "<think>"
_CLOSE = "</think>"


class ThoughtFilter:
    """Drops one ``<think>...</think>`` block at the very beginning of a streamed reply.

    Blocks after the beginning are not dropped, because they are part of the reply, for example in a
    text about such blocks. If a block is not closed, all further text is dropped: a model that is
    cut off while it thinks has given no reply. Thoughts that a provider sends separately
    (``reasoning_content``) do not reach this filter.
    """

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"

    def feed(self, text: str) -> str:
        """Add text. Return the part of the reply that can be passed on now."""
        if self._state == "reply":
            return text
        self._held += text
        if self._state == "start":
            begun = self._held.lstrip()
            if _OPEN.startswith(begun[: len(_OPEN)]) and len(begun) < len(_OPEN):
                return ""
            if not begun.startswith(_OPEN):
                return self._release()
            self._state = "thought"
            self._held = begun[len(_OPEN) :]
        if self._state == "thought":
            _, closed, rest = self._held.partition(_CLOSE)
            if not closed:
                # Keep only the last characters, which may be the beginning of the end mark. All
                # earlier characters are dropped, so that a long thought does not fill the memory.
                self._held = self._held[-len(_CLOSE) + 1 :]
                return ""
            self._state = "gap"
            self._held = rest
        self._held = self._held.lstrip()
        return self._release() if self._held else ""

    def finish(self) -> str:
        """Return the text that was held back because it could have been the beginning of a
        thought."""
        return self._release() if self._state == "start" else ""

    def _release(self) -> str:
        self._state = "reply"
        text, self._held = self._held, ""
        return text
