"""What a handler is given."""

from nekro_core.plugin.context import AgentCtx
from nekro_core.plugin.files import BoxFileSystem
from nekro_core.plugin.web.values import WebhookRequest

__all__ = ["AgentCtx", "BoxFileSystem", "WebhookRequest"]
