"""Errors of sending. What a platform answers is no error but a `Receipt`.

::

    NekroError
    ├── DeliveryError
    │   ├── NothingToSend     caller's fault: no text, no medium
    │   ├── TooManySends      caller's fault: the run has sent its share
    │   └── CannotDo          caller's fault: no message of which that can be asked
    └── NotFetched            an address brought no bytes: refused, not there, too late, too large
"""

from nekro_core.system.errors import NekroError


class DeliveryError(NekroError):
    """A send was not begun; nothing of it left."""


class NothingToSend(DeliveryError):
    """There is nothing that a person could see or hear."""


class TooManySends(DeliveryError):
    """The run has sent as many messages as one run may; says the limit and what to do instead."""


class CannotDo(DeliveryError):
    """There is no such message, or nothing of the kind can be done about it now; says why."""


class NotFetched(NekroError):
    """There are no bytes; the text says why, for a person to read."""
