"""A fault of a plugin, with a message for its operator and its author."""

from dataclasses import dataclass
from enum import StrEnum


class ProblemSeverity(StrEnum):
    """Whether something does not work, or works and could be better."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginProblem:
    """One finding. ``where`` is ``file:line``, ``remedy`` what to do."""

    severity: ProblemSeverity
    message: str
    where: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{place}{self.message}{remedy}"
