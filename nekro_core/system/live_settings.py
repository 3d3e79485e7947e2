"""Defines the base class of settings that can change while the bot runs.

The code of a room keeps a settings object and reads its fields when it needs them. When the
operator changes the settings, the object takes over the new values. So all code that keeps the
object gets them at its next read. A read takes no longer than in any other object.
"""

from enum import Enum
from typing import Self

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo


class Applies(Enum):
    """When a change of a setting takes effect. ``Field(json_schema_extra=AFTER_RESTART)`` marks a
    field, and the mark is then also in the JSON schema. The mark of a section counts for all its
    fields that have no mark."""

    AT_ONCE = "at once"
    """The change takes effect at the next use of the setting. This is the default."""
    AFTER_RESTART = "after a restart"
    """The change takes effect at the next start of the bot, because the bot uses the value only
    while it starts."""


AT_ONCE: JsonDict = {"applies": Applies.AT_ONCE.value}
AFTER_RESTART: JsonDict = {"applies": Applies.AFTER_RESTART.value}


def applies(field: FieldInfo, otherwise: Applies = Applies.AT_ONCE) -> Applies:
    """Return the mark of a field, or ``otherwise`` if the field has no mark."""
    extra = field.json_schema_extra
    return (
        Applies(extra["applies"]) if isinstance(extra, dict) and "applies" in extra else otherwise
    )


class LiveSettings(BaseModel):
    """Settings of a room. Fields cannot be assigned; only `take_over` changes them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def take_over(self, newer: Self, otherwise: Applies = Applies.AT_ONCE) -> None:
        """Take the values of another object of the same class.

        Fields that are marked with `AFTER_RESTART` keep their values. ``otherwise`` is the
        mark of the section, for fields without a mark.
        """
        # The class is frozen, so assigning to a field would raise an error.
        values = self.__dict__
        for name, field in type(self).model_fields.items():
            mark = applies(field, otherwise)
            mine, theirs = values[name], getattr(newer, name)
            if isinstance(mine, LiveSettings) and type(mine) is type(theirs):
                mine.take_over(theirs, mark)
            elif mark is Applies.AT_ONCE:
                values[name] = theirs
            else:
                continue
            if name in newer.model_fields_set:
                self.model_fields_set.add(name)
            else:
                self.model_fields_set.discard(name)
