"""Counts what became of the lines of an import."""

from dataclasses import dataclass, field

_SHOWN = 50
"""Maximum number of sentences in one report."""


@dataclass(slots=True, kw_only=True)
class TypeCounts:
    """What became of the lines of one type.

    Attributes:
        new: Lines that were stored, or would be.
        existed: Lines whose content was here already.
        differ: Lines that would overwrite something else, or something newer. They are left out.
        refused: Lines that cannot be imported.
    """

    new: int = 0
    existed: int = 0
    differ: int = 0
    refused: int = 0


@dataclass(slots=True, kw_only=True)
class TransferReport:
    """What became of the lines of an import.

    Attributes:
        counts: The numbers by type. Lines that cannot be read have the type ``unreadable``.
        sentences: Why lines were left out, each with the number of the line; at most 50.
        made: When the export was made, as its first line says; 0 if no line has said it.
    """

    counts: dict[str, TypeCounts] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    made: float = 0.0

    def of(self, kind: str) -> TypeCounts:
        """Return the counts of a type."""
        return self.counts.setdefault(kind, TypeCounts())

    def tell(self, number: int, sentence: str) -> None:
        """Add a sentence about a line."""
        if len(self.sentences) < _SHOWN:
            self.sentences.append(f"line {number}: {sentence}")
