"""What each kind of plugin offers so that its configuration can be shown and changed in a form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from nekro_core.plugins.forms.fields import FormField
from nekro_core.system.errors import NekroError


class FormRefused(NekroError, ValueError):
    """The values of a form cannot be used, and nothing was changed. ``problems`` says for the place
    of each field what is expected. The text is the error that the file would give with these
    values."""

    def __init__(self, text: str, problems: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.problems = dict(problems or {})


class PluginConfiguration(Protocol):
    """The configuration of one loaded plugin, in one file. The plugin's own code may run in each
    method."""

    @property
    def path(self) -> Path:
        """The file. It need not exist."""

    def has_fields(self) -> bool:
        """Whether the form has any field. This is fast, for lists of plugins."""

    def fields(self) -> tuple[FormField, ...]:
        """The fields of the form."""

    def read(self) -> dict[str, Any]:
        """The values in the file, with defaults for those that are missing. Raises `FormRefused` if
        the file cannot be used."""

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check values as the loader checks the file, and return them as they would be stored.
        Raises `FormRefused`."""

    def new_text(self, values: Mapping[str, Any]) -> str:
        """The text of the file with values that `checked` returned. Comments in the file stay.
        Raises `FormRefused` and `OSError`."""

    async def apply(self) -> None:
        """Give the plugin the values of the file, as if its operator had edited the file."""
