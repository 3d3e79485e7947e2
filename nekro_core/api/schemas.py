"""What a handler is given."""

from nekro_core.plugin.context import AgentCtx
from nekro_core.plugin.files import BoxFileSystem

__all__ = ["AgentCtx", "BoxFileSystem"]
