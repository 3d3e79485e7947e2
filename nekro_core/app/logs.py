"""Writes log lines to stdout, into memory and into files with loguru, and replaces all known
secrets in them."""

import json
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import msgspec
from loguru import logger
from nonebot import log as nonebot_log

from nekro_core.app.http_limits import CONNECTION_REFUSED
from nekro_core.app.settings import SECRET_NAME
from nekro_core.app.settings_sources import SettingsError
from nekro_core.delivery.account_settings import StoredAccounts
from nekro_core.plugins.host.isolation.log_names import name_plugins_in_log, with_plugin_names
from nekro_core.system.logs.book import LogBook
from nekro_core.system.logs.files import RotatedLogFiles
from nekro_core.system.logs.line import LogLine
from nekro_core.system.logs.ring import LogRing
from nekro_core.system.logs.settings import LogSettings
from nekro_core.system.secrets import FOLDER

if TYPE_CHECKING:
    from loguru import Message

_SHORTEST = 8
"""Minimum number of characters of a secret that is replaced. A shorter secret may be part of
ordinary words, and replacing it would make the log unreadable."""
_CANCELLED = "CancelledError"
_OF_VISITORS = (
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
    "ASGI callable returned without completing response.",
    "ASGI callable returned without completing handshake.",
    CONNECTION_REFUSED,
)
"""Messages that the web server logs for an invalid request, for an answer that a box or a client
ended too early, for a refused WebSocket, and for a refused connection. `VisitorLogThrottle` limits
them: otherwise everybody who can reach the port could fill the disk with these lines."""
_ONCE_IN_S = 60.0
_MIB = 1024 * 1024
_MOST_TEXT = 16_000
_MOST_TRACEBACK = 32_000
"""Maximum number of characters of a traceback that are kept in memory and in files. The limit for
the text of a message is `_MOST_TEXT`."""
_QUIET = ("httpx", "httpx2", "httpcore", "openai", "aiosqlite", "tortoise", "websockets")


class VisitorLogThrottle(logging.Filter):
    """Limits the messages about clients' errors (`_OF_VISITORS`) to one warning a minute for each
    kind. The next warning of a kind contains the number of messages that were left out. Other
    messages pass unchanged."""

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

    def redact(self, text: str) -> str:
        """Return a text with stars in place of the secrets in it."""
        return self._pattern.sub("***", text) if self._pattern else text

    def write(self, text: str) -> None:
        """Write a text after replacing the secrets in it."""
        self._out.write(self.redact(text))

    def write_clean(self, text: str) -> None:
        """Write a text that has no secrets, at once."""
        self._out.write(text)
        self._out.flush()

    def flush(self) -> None:
        """Flush the stream."""
        self._out.flush()

    def isatty(self) -> bool:
        """Return True if the stream is a terminal. loguru uses colours on a terminal."""
        return self._out.isatty()


class PluginNameStream:
    """A text stream that replaces the internal names of plugins' modules with the names that
    ``nekro plugin list`` shows, also in tracebacks. All other text is passed on without changes."""

    def __init__(self, out: TextIO | RedactingStream) -> None:
        self._out = out

    def write(self, text: str) -> None:
        """Write a text with the replaced names."""
        self._out.write(with_plugin_names(text))

    def flush(self) -> None:
        """Flush the stream."""
        self._out.flush()

    def isatty(self) -> bool:
        """Return True if the stream is a terminal; loguru then uses colours."""
        return self._out.isatty()


def log_to_stderr() -> None:
    """Write the log to stderr, as loguru does by default, with the names of plugins (see
    `PluginNameStream`). Commands that load a plugin use this function. It replaces the log of the
    whole process."""
    name_plugins_in_log()
    logger.remove()
    logger.add(PluginNameStream(sys.stderr), diagnose=False, backtrace=False)


class LiveLog:
    """Writes each log line to stdout, into memory and into files, and changes the level of all
    three. In all three, secrets are replaced by stars."""

    def __init__(
        self,
        redactor: RedactingStream,
        folder: Path | None,
        level: str,
        settings: LogSettings | None = None,
    ) -> None:
        settings = settings or LogSettings()
        self._redactor = redactor
        self._prints_json = settings.format == "json"
        self._ring = LogRing()
        self._files = (
            RotatedLogFiles(folder, size=settings.file_mb * _MIB, files=settings.files)
            if folder is not None
            else None
        )
        self._number = 0
        self._handlers: list[int] = []
        self._set_level(level)
        self.book = LogBook(
            self._ring,
            self._files,
            level=(level or "INFO").upper(),
            change_level=self._change_level,
        )

    def _set_level(self, level: str) -> None:
        number = _level(level)
        for handler in self._handlers:
            logger.remove(handler)
        # ``diagnose`` is False: otherwise tracebacks would show the values of variables, which may
        # be people's messages or keys.
        self._handlers = [
            logger.add(
                self._keep, level=number, diagnose=False, backtrace=False, format="{message}"
            )
        ]
        if not self._prints_json:
            text = logger.add(
                PluginNameStream(self._redactor),
                # Use the handler's level and not NoneBot's filter: loguru makes each line before it
                # filters the line, and making it takes 50 µs.
                level=number,
                diagnose=False,
                backtrace=False,
                format=nonebot_log.default_format,
            )
            self._handlers.append(text)

    def _change_level(self, level: str) -> None:
        try:
            self._set_level(level)
        except SettingsError as error:
            raise ValueError(str(error).replace("LOG_LEVEL is", "it is")) from None

    def _keep(self, message: "Message") -> None:
        record = message.record
        text = record["message"]
        self._number += 1
        line = LogLine(
            number=self._number,
            time=record["time"].timestamp(),
            level=record["level"].name,
            severity=record["level"].no,
            logger=record["name"] or "",
            plugin=str(record["extra"].get("plugin", "")),
            chat_key=str(record["extra"].get("chat_key", "")),
            turn_id=_number_of(record["extra"].get("turn")),
            text=self._clean(text)[:_MOST_TEXT],
            # What follows after the message is the traceback.
            traceback=self._clean(str(message)[len(text) :].strip())[-_MOST_TRACEBACK:],
        )
        self._ring.add(line)
        if self._files is not None:
            self._files.write(line)
        if self._prints_json:
            # The secrets in the texts of this line were replaced above.
            self._redactor.write_clean(msgspec.json.encode(line).decode() + "\n")

    def _clean(self, text: str) -> str:
        return self._redactor.redact(with_plugin_names(text)) if text else ""


def _number_of(turn: object) -> int:
    """Return the id of a turn; 0 if it is not known. The id may become known only after the first
    lines of the turn were logged, so ``turn`` may be a function that returns it."""
    found = turn() if callable(turn) else turn
    return found if isinstance(found, int) else 0


def configure_logging(
    written: Mapping[str, str],
    folder: Path | None = None,
    settings: LogSettings | None = None,
) -> tuple[RedactingStream, LogBook]:
    """Write all logs of the process to stdout, also those of NoneBot and the standard library, and
    keep them in memory and in files of ``folder``.

    ``written`` has the settings from files and environment, by name. The secrets among them are
    replaced in the log. This is necessary because NoneBot logs its whole configuration at DEBUG.
    Only the server may call this function, because it changes the logging of the whole process.
    Raises `SettingsError` for an unknown ``LOG_LEVEL``.
    """
    redactor = RedactingStream(sys.stdout)
    redactor.add_secrets(
        value for name, value in written.items() if value and SECRET_NAME.search(name)
    )
    redactor.add_secrets(secret for value in written.values() for secret in _inner_secrets(value))
    logger.remove()
    live = LiveLog(redactor, folder, written.get("log_level", ""), settings)
    root = logging.getLogger()
    root.handlers = [nonebot_log.LoguruHandler()]
    root.setLevel(logging.INFO)
    server = logging.getLogger("uvicorn.error")
    server.setLevel(logging.WARNING)  # otherwise each opened page would log two lines with ids
    server.addFilter(_is_no_end)
    server.addFilter(VisitorLogThrottle())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    return redactor, live.book


def _is_no_end(record: logging.LogRecord) -> bool:
    """Return False for the traceback that the web server logs when a signal ends the bot during its
    start. The traceback is left out of the log, because a signal is not an error."""
    return not record.getMessage().rstrip().endswith(_CANCELLED)


def _inner_secrets(written: str) -> Iterator[str]:
    """Yield the secrets inside a setting that is JSON, for example the token of an account. They
    are recognized by their names."""
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


def account_secrets(stored: StoredAccounts) -> Iterable[str]:
    """Return the secrets in the settings of accounts that an operator added."""
    return _inner_secrets(json.dumps([dict(each) for each in stored.accounts.values()]))


def stored_secrets(data_dir: Path) -> list[str]:
    """Return the secrets that the bot made and stored in the data folder."""
    folder = data_dir / FOLDER
    return [path.read_text().strip() for path in folder.glob("*") if path.is_file()]
