"""The protocol through which a form shows and changes the configuration of a plugin of any kind."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from nekro_core.plugins.forms.fields import FormField
from nekro_core.system.errors import NekroError


class FormRefused(NekroError, ValueError):
    """The values of a form cannot be used, and nothing was changed. ``problems`` maps the places of
    wrong fields to what is expected there. The text is the error that the plugin's loader would
    raise for a file with these values."""

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
        """Return True if the form has at least one field. Lists of plugins call this, so it must be
        fast."""

    def fields(self) -> tuple[FormField, ...]:
        """Return the fields of the form."""

    def read(self) -> dict[str, Any]:
        """Return the values in the file, and the defaults of missing values. Raises `FormRefused`
        if the file cannot be used."""

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check values as the loader checks the file, and return them as they would be stored.
        Raises `FormRefused`."""

    def new_text(self, values: Mapping[str, Any]) -> str:
        """Return the new text of the file, with values that `checked` returned. Comments in the
        file stay. Raises `FormRefused` and `OSError`."""

    async def apply(self) -> None:
        """Give the plugin the new values of the file, as after an edit of the file by the
        operator."""
