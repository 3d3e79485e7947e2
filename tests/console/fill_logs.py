"""Makes log lines for the test bot. The test bot itself writes no log, because the server of a test
sets up logging."""

import time

from nekro_core.system.logs.book import LogBook
from nekro_core.system.logs.line import LogLine
from nekro_core.system.logs.ring import LogRing

TEXTS = (
    ("DEBUG", 10, "the prompt has 1,204 tokens", "", "web-private_lin", 1),
    ("INFO", 20, "<img src=x onerror=alert(1)>", "", "web-private_lin", 1),
    ("WARNING", 30, "\x1b[31mred\x1b[0m and \u202etxt.exe", "weather", "", 0),
    ("ERROR", 40, "the forecast failed", "weather", "web-private_lin", 2),
)
TRACEBACK = 'Traceback (most recent call last):\n  File "weather.py", line 7\nKeyError: "sun"'


def filled_log() -> tuple[LogBook, LogRing]:
    """A log with some lines."""
    ring = LogRing()
    for number, (level, severity, text, plugin, chat_key, turn_id) in enumerate(TEXTS, 1):
        ring.add(
            LogLine(
                number=number,
                time=time.time(),
                level=level,
                severity=severity,
                logger="nekro_core.agent",
                text=text,
                plugin=plugin,
                chat_key=chat_key,
                turn_id=turn_id,
                traceback=TRACEBACK if severity >= 40 else "",
            )
        )
    return LogBook(ring), ring
