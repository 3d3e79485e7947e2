"""The plugins' settings, under ``NEKRO_PLUGIN__``."""

from pydantic import BaseModel, Field


class PluginSettings(BaseModel):
    """Bounds of what plugins do, and what they may."""

    import_s: float = Field(default=30.0, gt=0)
    """Longest import of a plugin's module: slow work belongs in its init method."""

    hook_s: float = Field(default=30.0, gt=0)
    """Longest init, cleanup, and message hook of a plugin."""

    prompt_s: float = Field(default=2.0, gt=0)
    """Longest that a prompt waits for what plugins add to it."""

    tool_s: float = Field(default=120.0, gt=0)
    """Longest call of a tool."""

    may_send_elsewhere: frozenset[str] = frozenset()
    """Keys of plugins whose tools may write to other chats than the one that asks."""

    order: tuple[str, ...] = ()
    """Keys of installed plugins, first the one that has a name which several want."""
