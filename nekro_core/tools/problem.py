"""Defines the value that describes a problem of a plugin, for the plugin's author and the
operator."""

from dataclasses import dataclass
from enum import StrEnum


class ProblemSeverity(StrEnum):
    """An error (something does not work) or a warning (something works but should be improved)."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginProblem:
    """One problem. ``where`` is ``file:line``; ``remedy`` says what to do."""

    severity: ProblemSeverity
    message: str
    where: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{place}{self.message}{remedy}"
