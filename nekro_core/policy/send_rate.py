"""How much may be sent: by one run, and to one chat in a while."""

from collections import OrderedDict, deque

from nekro_core.policy.settings import SendRateSettings

_RUNS = 4096
"""Runs whose counts are kept; far above what runs at once, so that none starts anew while it
runs."""


class RunSendLimit:
    """Counts the messages of each run."""

    def __init__(self, settings: SendRateSettings) -> None:
        self._most = settings.sends_per_run
        self._sent: OrderedDict[str, int] = OrderedDict()

    def take(self, run_id: str, messages: int) -> str:
        """Count so many messages more, all or none. Returns why they may not be sent, to tell the
        run; empty where they may. A send that no run asked for is free."""
        if not run_id:
            return ""
        sent = self._sent.get(run_id, 0)
        if sent + messages > self._most:
            return (
                f"this run has sent {sent} of {self._most} messages and this would be {messages} "
                "more; nothing of it was sent. Say it in one message, or write a file and send that"
            )
        self._sent[run_id] = sent + messages
        self._sent.move_to_end(run_id)
        if len(self._sent) > _RUNS:
            self._sent.popitem(last=False)
        return ""


class SendRateWindow:
    """The platform calls of one chat in the last while. Times are the event loop's."""

    def __init__(self, settings: SendRateSettings) -> None:
        self._most = settings.sends_per_window
        self._seconds = settings.window_s
        self._calls: deque[float] = deque()

    def wait_s(self, now: float) -> float:
        """Seconds until there is room for one more."""
        self._forget(now)
        if len(self._calls) < self._most:
            return 0.0
        return self._calls[-self._most] + self._seconds - now

    def take(self, now: float) -> None:
        """A call is made now."""
        self._calls.append(now)

    def idle(self, now: float) -> bool:
        """Whether nothing is left to remember."""
        self._forget(now)
        return not self._calls

    def _forget(self, now: float) -> None:
        while self._calls and self._calls[0] <= now - self._seconds:
            self._calls.popleft()
