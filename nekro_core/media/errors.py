"""Errors of this room: why bytes were not converted.

::

    NekroError
    └── MediaError
        ├── UnusableMedia    the file is damaged, hostile, empty, too long or of an unknown type
        └── CodecMissing     a library is not installed; the text says how to install it
"""

from nekro_core.system.errors import NekroError


class MediaError(NekroError):
    """Nothing was converted. The message says why, in words for people."""


class UnusableMedia(MediaError):
    """The file cannot be decoded, or it cannot be converted to a file within the limits."""


class CodecMissing(MediaError):
    """The library for this kind is not installed."""
