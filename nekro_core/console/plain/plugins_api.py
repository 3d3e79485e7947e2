"""Serves over the HTTP API the list of plugins with their problems, and the packages that change at
the next start. See docs/http-api.md."""

from fastapi import APIRouter

from nekro_core.console.plain.views import Json
from nekro_core.operator.contract import OperatorHost


def add_plugins(router: APIRouter, operator: OperatorHost) -> None:
    """Add the route of the HTTP API to ``router``."""

    @router.get("/plugins")
    async def list_plugins() -> Json:
        shown = operator.plugins.shown()
        return {
            "plugins": [
                {
                    "item": each.item,
                    "key": each.key,
                    "version": each.version,
                    "state": each.state,
                    "tools": list(each.tools),
                    "problems": list(each.problems),
                }
                for each in shown.plugins
            ],
            "at_next_start": list(shown.at_next_start),
        }
