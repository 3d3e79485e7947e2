"""Boxes that have names. An owner may have several. A box that is idle for long is put to sleep:
its files are stored and its processes end. The next use wakes it, also after a restart of the bot.

::

    named_box.py    NamedBox: one box, from its first use to its destruction
    owner_boxes.py  OwnerBoxes: the boxes of one owner, by name
    named_boxes.py  NamedBoxes: all boxes of all owners; puts boxes to sleep
    storage.py      FolderStorage: stores the files of boxes while they sleep
    layers.py       merges an archive of all files with later archives of changes

An owner is any text, for example a chat key. ::

    absent --first use, create--> starting --ready--> running --idle--> sleeping --use--> starting
    running, sleeping --destroy--> destroyed (files removed, the name free again)
    starting --failure--> state before (the caller gets the error; the next use tries again)
    running --the box died--> sleeping (with the files of the last save; the next use reports it)
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
from nekro_core.sandbox.named.storage import BoxesTakenOver, BoxRecord, BoxStorage, FolderStorage

__all__ = [
    "BoxLease",
    "BoxListing",
    "BoxRecord",
    "BoxSource",
    "BoxState",
    "BoxStorage",
    "BoxesTakenOver",
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
