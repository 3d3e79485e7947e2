"""Plugins written for MaiBot: the host behind the real `maibot_sdk` package.

The SDK is a dependency (LGPL-3.0-only), used unmodified. This package loads plugins that use it,
makes a `Tool` of each of their tools, runs their commands, hooks and event handlers, and answers
their calls through ``self.ctx``.
"""

from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.gateways import GatewayPorts
from nekro_core.compat.maibot.host import MaiBotHost

__all__ = ["BotView", "GatewayPorts", "MaiBotHost"]
