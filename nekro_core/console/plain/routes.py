"""Collects the routes of the HTTP API of turns, plugins, tools and undelivered messages, and the
redirects of old addresses, by area."""

from fastapi import APIRouter

from nekro_core.console.plain.moved_pages import moved_outbox, moved_plugins, moved_turns
from nekro_core.console.plain.outbox_api import add_outbox
from nekro_core.console.plain.plugins_api import add_plugins
from nekro_core.console.plain.tools_api import add_tools
from nekro_core.console.plain.turns_api import add_turns
from nekro_core.operator.contract import OperatorHost
from nekro_core.operator.http_routes import API, Route


def plain_routes(operator: OperatorHost) -> list[tuple[APIRouter, str]]:
    """Make the routers. Each router is returned with the name of its area, which the scopes of API
    tokens use."""
    found = [
        (moved_outbox(), "outbox"),
        (moved_plugins(), "plugins"),
        (moved_turns(), "turns"),
    ]
    for area, add in (
        ("tools", add_tools),
        ("outbox", add_outbox),
        ("turns", add_turns),
        ("plugins", add_plugins),
    ):
        router = APIRouter(prefix=API, route_class=Route, include_in_schema=False)
        add(router, operator)
        found.append((router, area))
    return found
