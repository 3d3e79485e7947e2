"""Re-exports what an adapter needs to put a page or an HTTP API behind the console's login.

The adapter gets the `Site` as `OperatorHost.site` in its ``create_page``. It need not check logins:
each request that reaches its routes comes from a person who may use them.
"""

from nekro_core.operator.contract import Site
from nekro_core.operator.http_routes import (
    API,
    MAX_BODY_BYTES,
    PAGE,
    BoundedBody,
    Route,
    WebApiError,
)
from nekro_core.operator.media_response import media_response
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin

__all__ = [
    "API",
    "MAX_BODY_BYTES",
    "PAGE",
    "AccessRole",
    "Actor",
    "BoundedBody",
    "RequestOrigin",
    "Route",
    "Site",
    "WebApiError",
    "media_response",
]
