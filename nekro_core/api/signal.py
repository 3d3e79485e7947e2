"""Re-exports the signals that a plugin's hook returns for a message."""

from nekro_core.plugins.authoring.declarations import MsgSignal

__all__ = ["MsgSignal"]
