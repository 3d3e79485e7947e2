"""Answers the calls that a plugin makes through the SDK's context."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from loguru import logger

from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.capabilities import CAPABILITIES
from nekro_core.compat.maibot.capability import (
    CapabilityCall,
    CapabilityDenied,
    CapabilityError,
)
from nekro_core.compat.maibot.formats.segments import InvalidSegment
from nekro_core.compat.maibot.gateways import Gateways
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins, MaiBotPlugin
from nekro_core.plugins.authoring.faults import is_cancellation

_LONGEST_S = 300.0


@dataclass(slots=True, kw_only=True, eq=False)
class PluginRpc:
    """The function with which the SDK calls the host. In MaiBot the call goes to another process;
    here the plugin and the host are in the same process."""

    plugin: MaiBotPlugin
    bot: BotView
    hooks: HookRunner
    plugins: LoadedPlugins
    gateways: Gateways

    async def __call__(
        self,
        method: str,
        plugin_id: str = "",
        payload: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Any:
        """Answer one call.

        Raises `CapabilityDenied`, and `PermissionError` for an unknown method. If a capability
        fails for another reason, a dict that describes the failure is returned.
        """
        del plugin_id  # this id is ignored, because a plugin could pass the id of another plugin
        payload = payload or {}
        match method:
            case "cap.call":
                name, args = str(payload.get("capability") or ""), payload.get("args")
                limit_s = min((timeout_ms or 0) / 1000 or _LONGEST_S, _LONGEST_S)
                return await self._capability(name, dict(args or {}), limit_s)
            case "host.route_message":
                return {"accepted": await self.gateways.route_message(self.plugin, payload)}
            case "host.update_message_gateway_state":
                return {"accepted": await self.gateways.update_state(self.plugin, payload)}
        raise PermissionError(f"there is no method {method!r}")

    async def _capability(self, name: str, args: dict[str, Any], limit_s: float) -> Any:
        if name.startswith("db."):
            name = f"database.{name[3:]}"
        plugin = self.plugin
        entry = CAPABILITIES.get(name)
        if entry is None:
            return _failed(f"there is no capability {name!r}")
        if not entry.free and not _declared(plugin, name):
            raise CapabilityDenied(
                f"E_CAPABILITY_DENIED: {name} is not among the capabilities of "
                f"{plugin.plugin_id}'s _manifest.json: add it there"
            )
        call = CapabilityCall(
            plugin=plugin,
            name=name,
            args=args,
            bot=self.bot,
            hooks=self.hooks,
            plugins=self.plugins,
        )
        try:
            with anyio.fail_after(limit_s):
                return await entry.answer(call)
        except (CapabilityError, InvalidSegment) as error:
            if name.startswith("send."):
                # The SDK gives the plugin a plain False, so the reason must be in the log.
                where = args.get("stream_id")
                logger.warning(
                    "plugin {}: {} to {}: not sent: {}", plugin.plugin_id, name, where, error
                )
            return _failed(str(error))
        except TimeoutError:
            return _failed(f"{name} took over {limit_s:g} s")
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: {} failed", plugin.plugin_id, name)
            return _failed(f"{name} failed with {type(error).__name__}")


def _declared(plugin: MaiBotPlugin, name: str) -> bool:
    declared = plugin.manifest.capabilities
    family = name.partition(".")[0]
    other = f"db.{name[9:]}" if family == "database" else name
    return bool({name, other, f"{family}.*", "*"} & declared)


def _failed(message: str) -> dict[str, Any]:
    return {"success": False, "error": message}
