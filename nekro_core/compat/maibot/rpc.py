"""What a plugin asks through the SDK's context: the way from its call to a capability."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
from loguru import logger

from nekro_core.compat.maibot.capabilities import CAPABILITIES
from nekro_core.compat.maibot.capabilities.call import (
    CapabilityCall,
    CapabilityDenied,
    CapabilityError,
)
from nekro_core.compat.maibot.gateways import route_message, update_state
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.plugins.authoring.faults import is_cancellation

if TYPE_CHECKING:
    from nekro_core.compat.maibot.host import MaiBotHost

_LONGEST_S = 300.0


class PluginRpc:
    """What the SDK calls its connection to the host; here both are one process."""

    def __init__(self, host: "MaiBotHost", live: MaiBotPlugin) -> None:
        self._host = host
        self._live = live

    async def __call__(
        self,
        method: str,
        plugin_id: str = "",
        payload: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> Any:
        """Raises `CapabilityDenied`; everything else that goes wrong is a dict that says so."""
        del plugin_id  # who asks is known
        payload = payload or {}
        match method:
            case "cap.call":
                name, args = str(payload.get("capability") or ""), payload.get("args")
                limit_s = min((timeout_ms or 0) / 1000 or _LONGEST_S, _LONGEST_S)
                return await self._capability(name, dict(args or {}), limit_s)
            case "host.route_message":
                return {"accepted": await route_message(self._host, self._live, payload)}
            case "host.update_message_gateway_state":
                return {"accepted": await update_state(self._host, self._live, payload)}
        raise PermissionError(f"there is no method {method!r}")

    async def _capability(self, name: str, args: dict[str, Any], limit_s: float) -> Any:
        if name.startswith("db."):
            name = f"database.{name[3:]}"
        live = self._live
        offered = CAPABILITIES.get(name)
        if offered is None:
            return _failed(f"there is no capability {name!r}")
        if not offered.free and not _declared(live, name):
            raise CapabilityDenied(
                f"E_CAPABILITY_DENIED: {name} is not among the capabilities of {live.plugin_id}'s "
                "_manifest.json: add it there"
            )
        asked = CapabilityCall(host=self._host, live=live, name=name, args=args)
        try:
            with anyio.fail_after(limit_s):
                return await offered.answer(asked)
        except CapabilityError as error:
            return _failed(str(error))
        except TimeoutError:
            return _failed(f"{name} took over {limit_s:g} s")
        except BaseException as error:
            if is_cancellation(error):
                raise
            logger.exception("plugin {}: {} failed", live.plugin_id, name)
            return _failed(f"{name} failed with {type(error).__name__}")


def rpc_of(host: "MaiBotHost", live: MaiBotPlugin) -> Any:
    """What a plugin's context is made with."""
    return PluginRpc(host, live)


def _declared(live: MaiBotPlugin, name: str) -> bool:
    declared = live.manifest.capabilities
    family = name.partition(".")[0]
    other = f"db.{name[9:]}" if family == "database" else name
    return bool({name, other, f"{family}.*", "*"} & declared)


def _failed(message: str) -> dict[str, Any]:
    return {"success": False, "error": message}
