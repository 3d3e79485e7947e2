"""What a plugin answers when it is asked about a message."""

from nekro_core.plugins.authoring.declarations import MsgSignal

__all__ = ["MsgSignal"]
