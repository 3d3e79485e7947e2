"""Named boxes: many an owner, kept over sleep and wake, their files over restarts.

::

    named_box.py    NamedBox: one of them, from its first use to its destruction
    owner_boxes.py  OwnerBoxes: those of one owner, by name
    named_boxes.py  NamedBoxes: all of them, and which have to sleep
    storage.py      where their files lie while they sleep
    layers.py       an archive of all files, and later ones of what changed

An owner is any text; this room knows no chats. ::

    absent --first use, create--> starting --ready--> running --idle--> sleeping --use--> starting
    running, sleeping --destroy--> destroyed (files removed, the name free again)
    starting --failure--> as before (the error goes to who asked; the next use tries again)
    running --the box died--> sleeping (files as last saved; told once)
"""

from nekro_core.sandbox.named.named_box import (
    BoxLease,
    BoxState,
    Equip,
    ImageMismatch,
    NamedBox,
    StoredBoxUnreadable,
    TooManyBoxes,
    UseEffect,
)
from nekro_core.sandbox.named.named_boxes import BoxSource, NamedBoxes
from nekro_core.sandbox.named.owner_boxes import BoxListing, NamedBoxLimits, OwnerBoxes
from nekro_core.sandbox.named.storage import BoxRecord, BoxStorage, FolderStorage

__all__ = [
    "BoxLease",
    "BoxListing",
    "BoxRecord",
    "BoxSource",
    "BoxState",
    "BoxStorage",
    "Equip",
    "FolderStorage",
    "ImageMismatch",
    "NamedBox",
    "NamedBoxLimits",
    "NamedBoxes",
    "OwnerBoxes",
    "StoredBoxUnreadable",
    "TooManyBoxes",
    "UseEffect",
]
