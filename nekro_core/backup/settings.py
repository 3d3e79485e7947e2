"""The settings of backups, under ``NEKRO_BACKUP__``."""

from pydantic import Field

from nekro_core.system.live_settings import LiveSettings


class BackupSettings(LiveSettings):
    """When the bot makes backups by itself, and how many it keeps in ``data/backups``."""

    keep: int = Field(default=7, ge=1, le=1000)
    """Number of backups in ``data/backups``. When a new one was made and checked, the oldest ones
    beyond this number are deleted. Backups that were written to another place are never deleted."""

    every_hours: float = Field(default=0.0, ge=0, le=8760)
    """Hours between two backups that the bot makes by itself. They contain no secrets. With 0, it
    makes none."""
