"""Defines one line of the log, and the conditions by which lines are searched."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of the log, as it is in memory and in the files.

    Attributes:
        number: The line's number in this process; a later line has a higher number.
        time: Seconds since 1970.
        level: The name of the level, for example ``WARNING``.
        severity: The number of the level on loguru's scale, on which INFO is 20.
        logger: The module or plugin that logged it.
        plugin: The plugin that logged it; empty if the bot did.
        chat_key: The chat in whose session it was logged; empty if there is none.
        turn_id: The turn in which it was logged; 0 if there is none.
        text: The message.
        traceback: The traceback; empty if there is none.
    """

    number: int
    time: float
    level: str
    severity: int
    logger: str
    text: str
    plugin: str = ""
    chat_key: str = ""
    turn_id: int = 0
    traceback: str = ""

    @property
    def size(self) -> int:
        """The approximate number of bytes of memory that the line takes."""
        return 500 + len(self.text) + len(self.traceback)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """The conditions by which lines are searched. A filter without conditions matches every line.

    Attributes:
        severity: The lowest severity that a line may have.
        chat_key: The chat of the line.
        turn_id: The turn of the line.
        plugin: The plugin that logged the line.
        text: A text that the line or its traceback contains. Capital and small letters count as the
            same.
    """

    severity: int = 0
    chat_key: str = ""
    turn_id: int = 0
    plugin: str = ""
    text: str = ""

    def matches(self, line: LogLine) -> bool:
        """Return whether a line fulfils all conditions."""
        return (
            line.severity >= self.severity
            and (not self.chat_key or line.chat_key == self.chat_key)
            and (not self.turn_id or line.turn_id == self.turn_id)
            and (not self.plugin or line.plugin == self.plugin)
            and (not self.text or self._contained(line))
        )

    def _contained(self, line: LogLine) -> bool:
        wanted = self.text.casefold()
        return wanted in line.text.casefold() or wanted in line.traceback.casefold()
