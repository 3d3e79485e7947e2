"""Describes a setting for pages, commands and the HTTP API."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nekro_core.system.errors import NekroError
from nekro_core.system.live_settings import Applies


class SettingSource(Enum):
    """Where the value of a setting comes from. If several sources have a value, the last of them in
    this list counts."""

    DEFAULT = "default"
    FILE = "file"
    """``settings.toml`` or ``secrets.toml`` in the data folder."""
    DOTENV = ".env"
    """``.env`` or ``.env.{ENVIRONMENT}`` in the folder in which the bot was started."""
    ENVIRONMENT = "environment"
    """The environment of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingInfo:
    """One setting.

    Attributes:
        name: The name in ``settings.toml``, with a dot between tables: ``agent.turn.max_steps``.
        variable: The name in the environment and in ``.env``: ``NEKRO_AGENT__TURN__MAX_STEPS``.
        type: The type, in a few words: ``whole number from 1 to 100``.
        schema: The JSON schema of the value, for forms.
        description: What the setting does; empty for settings of other packages.
        default: The value without any setting. It is plain JSON.
        value: The value that the files and the environment give. It is plain JSON; None for a
            secret.
        is_set: Whether a file or the environment gives the value. For a secret, only this is shown
            and not the value.
        secret: Whether the value must not be shown.
        source: Where the value comes from.
        locked_by: If the environment or a ``.env`` file gives the value: the name of the variable,
            as the operator wrote it. Empty if ``settings.toml`` can change the value.
        locked_in: The name of the ``.env`` file with that variable; empty for the environment.
        applies: When a change takes effect.
        restart_needed: Whether the bot uses the value only after a restart.
    """

    name: str
    variable: str
    type: str
    schema: Mapping[str, Any]
    description: str
    default: Any
    value: Any
    is_set: bool
    secret: bool
    source: SettingSource
    locked_by: str
    locked_in: str
    applies: Applies
    restart_needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """What a change did to one setting.

    Attributes:
        name: The setting.
        before: Its value in the file before the change; None if the file had none, and for a
            secret.
        after: Its value in the file now; None if the file has none, and for a secret.
        secret: Whether the values must not be shown. Such a change cannot be undone.
    """

    name: str
    before: Any
    after: Any
    secret: bool


class SettingLocked(NekroError):
    """A setting cannot be changed, because the environment or a ``.env`` file gives its value. The
    text names the variable."""
