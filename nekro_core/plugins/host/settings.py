"""The plugins' settings, under ``NEKRO_PLUGIN__``."""

from pathlib import Path

from pydantic import Field

from nekro_core.plugins.authoring.limits import SHARED_BYTES
from nekro_core.plugins.packages import PackageFolder
from nekro_core.system.live_settings import AFTER_RESTART, LiveSettings


class PluginSettings(LiveSettings):
    """Limits and permissions of plugins. Names that end in ``_s`` are in seconds."""

    import_s: float = Field(default=30.0, gt=0)
    """Time limit for importing a plugin's module. Slow work belongs in its init method."""

    init_s: float = Field(default=30.0, gt=0)
    """Time limit for a plugin's init method."""

    cleanup_s: float = Field(default=1.5, gt=0)
    """Time limit for a plugin's cleanup method. It is short because the whole bot ends within 3 s
    of a SIGTERM."""

    message_s: float = Field(default=5.0, gt=0)
    """Time limit for a plugin's message hook. The message waits for it."""

    prompt_s: float = Field(default=2.0, gt=0)
    """Time limit for a plugin's prompt method. The prompt waits for it."""

    look_s: float = Field(default=0.5, gt=0)
    """Interval of checks whether the operator switched a plugin on or off."""

    tool_s: float = Field(default=120.0, gt=0, json_schema_extra=AFTER_RESTART)
    """Time limit for a call of a tool."""

    most_tools: int = Field(default=256, gt=0)
    """Maximum number of tools of one plugin, and maximum number of its other declarations."""

    blocks_s: float = Field(default=0.7, gt=0, json_schema_extra=AFTER_RESTART)
    """How long a plugin may block the event loop before the log names the plugin."""

    breaks_s: float = Field(default=5.0, ge=0, json_schema_extra=AFTER_RESTART)
    """How long a plugin may block the event loop before its code is interrupted; 0 never
    interrupts. C code is not interrupted."""

    may_send_elsewhere: frozenset[str] = frozenset()
    """Keys of plugins whose tools may write to other chats than the chat of the call."""

    shared_bytes: int = Field(default=SHARED_BYTES, gt=0, json_schema_extra=AFTER_RESTART)
    """Maximum number of bytes in a chat's shared folder, where plugins work with files of the
    chat's box."""

    strict_host_range: bool = Field(default=False, json_schema_extra=AFTER_RESTART)
    """Whether a plugin is refused if its manifest excludes the version of the host that it runs on.
    Otherwise this is a warning: most such plugins work."""

    order: tuple[str, ...] = Field(default=(), json_schema_extra=AFTER_RESTART)
    """Keys of installed plugins. If several plugins use the same name, the first one listed gets
    it."""

    package_index: str = Field(default="", json_schema_extra=AFTER_RESTART)
    """URL of the package index for plugins' packages; empty uses pip's own configuration."""

    build_packages: bool = Field(default=False, json_schema_extra=AFTER_RESTART)
    """Whether packages without a wheel are built, which runs their authors' code."""

    packages_s: float = Field(default=600.0, gt=0, json_schema_extra=AFTER_RESTART)
    """Time limit for a run of pip."""

    watch_files: bool = Field(default=False, json_schema_extra=AFTER_RESTART)
    """Whether an installed plugin is reloaded as soon as one of its files changes."""

    def shelf(self, data_dir: Path) -> PackageFolder:
        """Make the package folder of a data folder, with these settings."""
        return PackageFolder(
            data_dir,
            index=self.package_index,
            builds=self.build_packages,
            limit_s=self.packages_s,
        )
