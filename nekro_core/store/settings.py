"""The store's settings, under ``NEKRO_STORE__``."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class RetentionSettings(BaseModel):
    """How many days rows are stored. 0 stores them for ever."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages_days: float = Field(default=730.0, ge=0)
    """Messages. The newest 200 of each chat stay, however old they are."""

    turns_days: float = Field(default=180.0, ge=0)
    """Turns with their code, output and calls, and deliveries: they show the code of an answer."""

    uses_days: float = Field(default=400.0, ge=0)
    """Requests of plugins to models, and their costs."""

    round_s: float = Field(default=6 * 3600.0, gt=0)
    """Seconds between two searches for old rows."""


class StoreSettings(BaseModel):
    """How the database is run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    """NORMAL survives a killed process; FULL also a power cut, at a tenth of the speed."""

    busy_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """How long to wait for another program that holds the SQLite file (a backup, a shell)."""

    copies: int = Field(default=3, ge=1, le=50)
    """How many copies of the file from before migrations are stored."""

    keep: RetentionSettings = RetentionSettings()

    queue: int = Field(default=20_000, ge=100)
    """Most writes that wait for the disk. Further ones are refused, and adapters stop reading. A
    write takes a few kilobytes."""

    batch: int = Field(default=256, ge=1, le=1000)
    """Most writes that share a commit. SQLite binds 32,766 values at once; a message has 16."""
