"""Runs plugins written for MaiBot. It is the host whose functions the package `maibot_sdk` calls.

The SDK is a dependency (LGPL-3.0-only) and is used unmodified. This package loads plugins that use
the SDK, makes a `Tool` for each of their tools, runs their commands, hooks and event handlers, and
answers the calls that they make through ``self.ctx``.
"""

from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.gateway_ports import GatewayPorts
from nekro_core.compat.maibot.host import MaiBotHost

__all__ = ["BotView", "GatewayPorts", "MaiBotHost"]
