"""Writes log lines to stdout with loguru, and replaces all known secrets in them."""

import json
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

from loguru import logger
from nonebot import log as nonebot_log

from nekro_core.app.http_limits import CONNECTION_REFUSED
from nekro_core.app.settings import SECRET_NAME
from nekro_core.app.settings_sources import SettingsError
from nekro_core.plugins.host.isolation.log_names import name_plugins_in_log, with_plugin_names
from nekro_core.system.secrets import FOLDER

_SHORTEST = 8
"""Minimum characters of a secret that is replaced. A shorter secret may be part of ordinary words,
and replacing these would make the log unreadable."""
_CANCELLED = "CancelledError"
_OF_VISITORS = (
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "ASGI callable returned without completing response.",
    "ASGI callable returned without completing handshake.",
    CONNECTION_REFUSED,
)
"""Messages that the web server logs for an invalid request, for an answer that a box or a client
ended too early, for a refused WebSocket, and for a refused connection. Anybody who reaches the port
could fill the disk with these lines."""
_ONCE_IN_S = 60.0
_QUIET = ("httpx", "httpx2", "httpcore", "openai", "aiosqlite", "tortoise", "websockets")


class VisitorLogThrottle(logging.Filter):
    """Limits the messages about clients' errors to one warning a minute for each kind. The warning
    contains the number of messages that were left out. Other messages pass unchanged."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._until: dict[str, float] = {}
        self._held: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        kind = record.msg
        if kind not in _OF_VISITORS:
            return True
        now = self._clock()
        if now < self._until.get(kind, now):
            self._held[kind] += 1
            return False
        self._until[kind] = now + _ONCE_IN_S
        if held := self._held.pop(kind, 0):
            record.msg = f"{record.getMessage()} (and {held} more since the last such line)"
            record.args = ()
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


class RedactingStream:
    """A text stream that replaces known secrets in the written text."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._secrets: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Replace these secrets from now on, except short ones."""
        self._secrets |= {secret for secret in secrets if len(secret) >= _SHORTEST}
        longest_first = sorted(self._secrets, key=len, reverse=True)
        self._pattern = (
            re.compile("|".join(map(re.escape, longest_first))) if self._secrets else None
        )

    def write(self, text: str) -> None:
        """Write a text after replacing the secrets in it."""
        self._out.write(self._pattern.sub("***", text) if self._pattern else text)

    def flush(self) -> None:
        """Flush the stream."""
        self._out.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal. loguru uses colours on a terminal."""
        return self._out.isatty()


class PluginNameStream:
    """A text stream that names plugins as ``nekro plugin list`` does, in names of modules and in
    tracebacks too, and passes on all else."""

    def __init__(self, out: TextIO | RedactingStream) -> None:
        self._out = out

    def write(self, text: str) -> None:
        """Write a text, with the names of plugins."""
        self._out.write(with_plugin_names(text))

    def flush(self) -> None:
        """Flush the stream."""
        self._out.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal; loguru then uses colours."""
        return self._out.isatty()


def log_to_stderr() -> None:
    """Send what plugins log to stderr, as loguru does by default, with the names of plugins. For
    commands that load a plugin; it replaces the log of the whole process."""
    name_plugins_in_log()
    logger.remove()
    logger.add(PluginNameStream(sys.stderr), diagnose=False, backtrace=False)


def configure_logging(written: Mapping[str, str]) -> RedactingStream:
    """Write all logs of the process to stdout, also those of NoneBot and the standard library.

    ``written`` holds the settings in files and environment. The secrets in them must be replaced,
    because NoneBot logs its whole configuration at DEBUG. Only the server may call this function,
    because it changes the logging of the whole process. Raises `SettingsError` for an unknown
    ``LOG_LEVEL``.
    """
    redactor = RedactingStream(sys.stdout)
    redactor.add_secrets(
        value for name, value in written.items() if value and SECRET_NAME.search(name)
    )
    redactor.add_secrets(secret for value in written.values() for secret in _inner_secrets(value))
    logger.remove()
    logger.add(
        PluginNameStream(redactor),
        # NoneBot's filter is not used, because each line would have to be made before it is
        # filtered, which takes 50 µs.
        level=_level(written.get("log_level", "")),
        # A traceback with the values of variables would contain people's messages and keys.
        diagnose=False,
        backtrace=False,
        format=nonebot_log.default_format,
    )
    root = logging.getLogger()
    root.handlers = [nonebot_log.LoguruHandler()]
    root.setLevel(logging.INFO)
    server = logging.getLogger("uvicorn.error")
    server.setLevel(logging.WARNING)  # else each opened page would log two lines with ids
    server.addFilter(_is_no_end)
    server.addFilter(VisitorLogThrottle())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    return redactor


def _is_no_end(record: logging.LogRecord) -> bool:
    """Return False for the traceback of a start that a signal ended. This traceback is filtered
    out, because a signal is not an error."""
    return not record.getMessage().rstrip().endswith(_CANCELLED)


def _inner_secrets(written: str) -> Iterator[str]:
    """Yield the secrets inside a setting that is JSON, for example the token of an account. Their
    names show that they are secrets."""
    if not written.lstrip().startswith(("[", "{")):
        return
    try:
        waiting = [json.loads(written)]
    except ValueError:
        return
    while waiting:
        match waiting.pop():
            case dict() as table:
                for name, value in table.items():
                    if isinstance(value, str) and SECRET_NAME.search(str(name)):
                        yield value
                    else:
                        waiting.append(value)
            case list() as values:
                waiting += values


def _level(wished: str) -> int:
    if wished.isdecimal():
        return int(wished)
    try:
        return logger.level(wished.upper() or "INFO").no
    except ValueError:
        raise SettingsError(
            f"LOG_LEVEL is {wished!r}, expected a number or one of "
            "TRACE, DEBUG, INFO, SUCCESS, WARNING, ERROR, CRITICAL"
        ) from None


def stored_secrets(data_dir: Path) -> list[str]:
    """Return the secrets that the bot made and stored in the data folder."""
    folder = data_dir / FOLDER
    return [path.read_text().strip() for path in folder.glob("*") if path.is_file()]
