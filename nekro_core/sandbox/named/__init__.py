"""Named boxes. An owner may have many; they survive sleep, and their files survive restarts.

::

    named_box.py    NamedBox: one box, from its first use to its destruction
    owner_boxes.py  OwnerBoxes: the boxes of one owner, by name
    named_boxes.py  NamedBoxes: all boxes, and which of them must sleep
    storage.py      stores their files while they sleep
    layers.py       an archive of all files, and later archives of changes

An owner is any text; this room knows no chats. ::

    absent --first use, create--> starting --ready--> running --idle--> sleeping --use--> starting
    running, sleeping --destroy--> destroyed (files removed, the name free again)
    starting --failure--> as before (the caller gets the error; the next use tries again)
    running --the box died--> sleeping (files as last saved; reported once)
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
