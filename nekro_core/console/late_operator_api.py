"""Makes the `OperatorApi` with the first request to it. See `LateOperator`."""

from importlib import import_module

import anyio.to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from nekro_core.console.refusals import ActorOf
from nekro_core.operator.late_operator import LateOperator


class LateOperatorApi:
    """An ASGI application that passes each request to an `OperatorApi`.

    Args:
        operator: Gets the queries and actions.
        actor_of: Returns who makes a request.
        version: The bot's version, for the OpenAPI document.
    """

    def __init__(self, operator: LateOperator, actor_of: ActorOf, version: str) -> None:
        self._operator = operator
        self._actor_of = actor_of
        self._version = version
        self._api: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        api = self._api or await self._made()
        await api(scope, receive, send)

    async def _made(self) -> ASGIApp:
        module = await anyio.to_thread.run_sync(import_module, "nekro_core.console.operator_api")
        operator = await self._operator.get()
        if self._api is None:  # another request may have made it meanwhile
            self._api = module.OperatorApi(operator, self._actor_of, self._version)
        return self._api
