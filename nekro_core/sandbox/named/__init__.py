"""Named boxes: many an owner, kept over sleep and wake, their files over restarts.

::

    life.py     NamedBox: one of them, from its first use to its destruction
    owned.py    OwnedBoxes: those of one owner, by name
    keeper.py   NamedBoxes: all of them, and which have to sleep
    storage.py  where their files lie while they sleep

An owner is any text; this room knows no chats. ::

    absent --first use, create--> starting --ready--> running --idle--> sleeping --use--> starting
    running, sleeping --destroy--> destroyed (files removed, the name free again)
    starting --failure--> as before (the error goes to who asked; the next use tries again)
    running --the box died--> sleeping (files as last saved; told once)
"""

from nekro_core.sandbox.named.named_box import (
    BoxInUse,
    BoxState,
    BoxUnreadable,
    Effect,
    Equip,
    ImageMismatch,
    NamedBox,
    TooManyBoxes,
)
from nekro_core.sandbox.named.named_boxes import BoxSource, NamedBoxes
from nekro_core.sandbox.named.owner_boxes import KeeperLimits, Listed, OwnedBoxes
from nekro_core.sandbox.named.storage import BoxRecord, BoxStorage, FolderStorage

__all__ = [
    "BoxInUse",
    "BoxRecord",
    "BoxSource",
    "BoxState",
    "BoxStorage",
    "BoxUnreadable",
    "Effect",
    "Equip",
    "FolderStorage",
    "ImageMismatch",
    "KeeperLimits",
    "Listed",
    "NamedBox",
    "NamedBoxes",
    "OwnedBoxes",
    "TooManyBoxes",
]
