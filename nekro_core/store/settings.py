"""The store's settings, under ``NEKRO_STORE__``."""

from typing import Literal

from pydantic import Field

from nekro_core.system.live_settings import AT_ONCE, LiveSettings


class RetentionSettings(LiveSettings):
    """How many days rows are stored. With 0, rows are never deleted."""

    messages_days: float = Field(default=730.0, ge=0)
    """Days for messages. The newest 200 of each chat are never deleted, however old they are."""

    turns_days: float = Field(default=180.0, ge=0)
    """Days for deliveries, and for turns with their code, output and tool calls. With these rows
    the operator can see the code behind an answer."""

    uses_days: float = Field(default=400.0, ge=0)
    """Days for plugins' requests to models, with their costs."""

    round_s: float = Field(default=6 * 3600.0, gt=0)
    """Seconds between two rounds of deletion."""


class StoreSettings(LiveSettings):
    """Settings of the database."""

    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    """With NORMAL no commit is lost if the process is killed. With FULL no commit is lost at a
    power cut either, at a tenth of the speed."""

    busy_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """Maximum wait in seconds while another program (a backup, a shell) has the SQLite file
    locked."""

    node: str = Field(default="", max_length=64, pattern=r"^[A-Za-z0-9._-]*$")
    """Name of this process, for example worker-1, if several processes of the bot share a
    PostgreSQL database. Each process needs another name. Empty: this process has the database for
    itself."""

    copies: int = Field(default=3, ge=1, le=50)
    """Number of old SQLite files that are kept. Each migration keeps the file from before it."""

    keep: RetentionSettings = Field(default_factory=RetentionSettings, json_schema_extra=AT_ONCE)

    queue: int = Field(default=20_000, ge=100)
    """Maximum number of queued writes. Further writes are refused, and adapters stop reading from
    their platforms. A write takes a few kilobytes of memory."""

    batch: int = Field(default=256, ge=1, le=1000)
    """Maximum number of writes in one commit. SQLite binds at most 32,766 values in a statement; a
    message has 16."""
