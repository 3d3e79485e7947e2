"""Plugins written for MaiBot: the host behind the real `maibot_sdk` package.

The SDK's decorators, types and base class are used as they are (LGPL-3.0-only, a dependency); what
is here loads such plugins, turns their tools into our `Tool`, runs their commands, hooks and event
handlers at our own stages, and answers what they ask of ``self.ctx``.
"""

from nekro_core.compat.maibot.host import MaiBotHost, MaiBotPorts

__all__ = ["MaiBotHost", "MaiBotPorts"]
