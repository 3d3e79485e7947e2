"""What a plugin wants done with a message."""

from collections.abc import Iterable
from enum import IntEnum


class MsgSignal(IntEnum):
    """The answer of a message hook. The numbers are those that existing plugins know."""

    FORCE_TRIGGER = -1
    """The bot answers, whatever its triggers say."""
    CONTINUE = 0
    """The plugin has no opinion."""
    BLOCK_TRIGGER = 1
    """The message is recorded, but wakes nobody."""
    BLOCK_ALL = 2
    """The message is not shown to the model at all."""

    @classmethod
    def of(cls, answer: object) -> "MsgSignal":
        """Read what a hook returned.

        Args:
            answer: A signal, its number as older plugins write it, or None for no opinion.

        Returns:
            The signal.

        Raises:
            ValueError: It is anything else.
        """
        if answer is None:
            return cls.CONTINUE
        if isinstance(answer, int) and not isinstance(answer, bool) and answer in {*cls}:
            return cls(answer)
        raise ValueError(
            f"expected a MsgSignal or None, got {type(answer).__name__} {answer!r:.60}"
        )

    @classmethod
    def merged(cls, signals: Iterable["MsgSignal"]) -> "MsgSignal":
        """Make one signal out of many.

        Args:
            signals: The answers of several hooks; none is `CONTINUE`.

        Returns:
            ``BLOCK_ALL`` where there is one, else ``FORCE_TRIGGER``, else ``BLOCK_TRIGGER``, else
            ``CONTINUE``.
        """
        given = set(signals)
        for signal in (cls.BLOCK_ALL, cls.FORCE_TRIGGER, cls.BLOCK_TRIGGER):
            if signal in given:
                return signal
        return cls.CONTINUE
