"""Serves ``/healthz``, ``/readyz`` and ``/metrics``. See docs/monitoring.md."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from nekro_core.console.access.health_access import ALIVE, METRICS, READY, may_read
from nekro_core.operator.http_routes import Route, WebApiError
from nekro_core.system.telemetry.readiness import BotMonitor


def health_routes(monitor: BotMonitor) -> APIRouter:
    """Return the router with these three routes. ``monitor`` knows the metrics, and whether the bot
    is ready."""
    router = APIRouter(route_class=Route, include_in_schema=False)

    @router.get(ALIVE)
    async def alive() -> dict[str, Any]:
        # The answer itself is the check. The route runs in the event loop, so an answer shows that
        # the loop is not blocked.
        return {"alive": True}

    @router.get(READY)
    async def ready(request: Request) -> Response:
        found = await monitor.readiness()
        shown: dict[str, Any] = {"ready": found.ready}
        if may_read(request.scope):
            shown["checks"] = {
                each.name: {"ok": each.ok} | ({"reason": each.reason} if each.reason else {})
                for each in found.checks
            }
        return JSONResponse(shown, 200 if found.ready else 503)

    @router.get(METRICS)
    async def metrics(request: Request) -> Response:
        if not may_read(request.scope):
            raise WebApiError(403, "scope", "this needs an API token with the scope metrics:read")
        text, content_type = await monitor.metrics_text()
        return Response(text, headers={"Content-Type": content_type})

    return router
