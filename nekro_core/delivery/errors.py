"""Errors of sending. If a platform refuses a message, this is not an error but a `Receipt`.

::

    NekroError
    ├── DeliveryError
    │   ├── NothingToSend     fault of the caller: the message has no text and no media
    │   ├── TooManySends      the run has sent its maximum number of messages
    │   └── CannotDo          there is no such message, or its state forbids the action
    ├── SignRefused           the platform refuses to show typing or a reaction
    └── NotFetched            no bytes came from a URL: refused, missing, too late, too large
"""

from nekro_core.system.errors import NekroError


class DeliveryError(NekroError):
    """A message was refused before sending began; no part of it was sent."""


class NothingToSend(DeliveryError):
    """The message has no content that a person could see or hear."""


class TooManySends(DeliveryError):
    """The run has already sent the maximum number of messages. The text gives the limit and says
    what to do instead."""


class CannotDo(DeliveryError):
    """There is no such message, or its state does not allow the action; the text says why."""


class SignRefused(NekroError):
    """The platform refuses to show that the bot is typing, or to add a reaction, and would refuse
    it again. The text is the reason."""


class NotFetched(NekroError):
    """A fetch brought no bytes; the text tells a person why."""
