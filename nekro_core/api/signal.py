"""What a plugin answers when it is asked about a message."""

from nekro_core.plugins.authoring.signal import MsgSignal

__all__ = ["MsgSignal"]
