"""How many messages one run may send."""

from collections import OrderedDict

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
