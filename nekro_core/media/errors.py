"""Errors of this room: why bytes were not converted.

::

    NekroError
    └── MediaError
        ├── UnusableMedia    the file: damaged, hostile, empty, too long, of a kind not decoded
        └── CodecMissing     this installation: a library is not there; says how to get it
"""

from nekro_core.system.errors import NekroError


class MediaError(NekroError):
    """Nothing was converted. The message says why, in words for people."""


class UnusableMedia(MediaError):
    """The file cannot be decoded, or nothing that fits the limits can be made of it."""


class CodecMissing(MediaError):
    """The library for this kind is not installed."""
