"""The plugins' settings, under ``NEKRO_PLUGIN__``."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.plugins.authoring.services import SHARED_BYTES
from nekro_core.plugins.packages import PackageFolder


class PluginSettings(BaseModel):
    """Limits of plugins, and what they are allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    import_s: float = Field(default=30.0, gt=0)
    """Longest import of a plugin's module: slow work belongs in its init method."""

    init_s: float = Field(default=30.0, gt=0)
    """Longest init method of a plugin."""

    cleanup_s: float = Field(default=1.5, gt=0)
    """Longest cleanup method: the whole bot ends within 3 s of a SIGTERM."""

    message_s: float = Field(default=5.0, gt=0)
    """Longest that a message waits for one plugin's opinion on it."""

    prompt_s: float = Field(default=2.0, gt=0)
    """Longest that a prompt waits for what plugins add to it."""

    look_s: float = Field(default=0.5, gt=0)
    """How often to look whether the operator switched a plugin on or off."""

    tool_s: float = Field(default=120.0, gt=0)
    """Longest call of a tool."""

    most_tools: int = Field(default=256, gt=0)
    """Most tools of one plugin, and most other things of one kind that it registers."""

    blocks_s: float = Field(default=0.7, gt=0)
    """How long a plugin may hold every chat up before the log names it."""

    breaks_s: float = Field(default=5.0, ge=0)
    """How long until its code is broken off; 0 never does that. What runs in C is not."""

    may_send_elsewhere: frozenset[str] = frozenset()
    """Keys of plugins whose tools may write to other chats than the one that asks."""

    shared_bytes: int = Field(default=SHARED_BYTES, gt=0)
    """Most that the folder may hold in which a chat's plugins work with files of its box."""

    order: tuple[str, ...] = ()
    """Keys of installed plugins, first the one that has a name which several want."""

    package_index: str = ""
    """Address of the index that plugins' packages come from; empty is what pip is set to."""

    build_packages: bool = False
    """Whether packages without a wheel are built, which runs their authors' code."""

    packages_s: float = Field(default=600.0, gt=0)
    """Longest run of pip."""

    watch_files: bool = False
    """Whether an installed plugin is loaded again as soon as one of its files changes."""

    def shelf(self, data_dir: Path) -> PackageFolder:
        """The package folder of a data folder, with the operator's settings."""
        return PackageFolder(
            data_dir,
            index=self.package_index,
            builds=self.build_packages,
            limit_s=self.packages_s,
        )
