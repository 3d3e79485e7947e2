"""The attacks that every backend must survive, as a table: to add one is to add a row."""

from tests.sandbox.attacks import egress, files, hatch, kernel, resources
from tests.sandbox.attacks.attack import Attack

TABLE: list[Attack] = sorted(
    (row for chapter in (egress, files, resources, kernel, hatch) for row in chapter.ATTACKS),
    key=lambda row: row.number or 1000,
)
