"""The table of attacks that every backend must withstand. Each attack is a row. To add an attack,
add a row to the ``ATTACKS`` of a module."""

from tests.sandbox.attacks import (
    egress,
    fetches,
    files,
    identity,
    kernel,
    kernel_memory,
    resources,
    supervisor,
    tools,
    ways,
)
from tests.sandbox.attacks.attack import Attack

_CHAPTERS = (
    egress,
    fetches,
    files,
    resources,
    kernel_memory,
    kernel,
    identity,
    supervisor,
    tools,
    ways,
)

TABLE: list[Attack] = sorted(
    (row for chapter in _CHAPTERS for row in chapter.ATTACKS),
    key=lambda row: row.number or 1000,
)
