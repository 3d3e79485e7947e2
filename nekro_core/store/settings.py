"""The store's settings, under ``NEKRO_STORE__``."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class StoreSettings(BaseModel):
    """How the database is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    """NORMAL survives a killed process; FULL also a power cut, at a tenth of the speed."""

    busy_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """How long to wait for another program that holds the SQLite file (a backup, a shell)."""

    copies: int = Field(default=3, ge=1, le=50)
    """How many copies of the file from before a migration are kept."""

    batch: int = Field(default=256, ge=1, le=1000)
    """Most writes that share a commit. SQLite binds 32,766 values at once; a message has 16."""
