"""How a plugin mounts what is reached over HTTP."""

from collections.abc import Callable
from typing import Any, TypeVar

from nekro_core.plugins.authoring.declaring import SupportsDeclare
from nekro_core.plugins.authoring.web import PluginRouter, Webhook

Function = TypeVar("Function", bound=Callable[..., Any])


class MountsWeb(SupportsDeclare):
    """Mixed into `NekroPlugin`."""

    def mount_router(self) -> Callable[[Function], Function]:
        """``() -> fastapi.APIRouter``: what the plugin answers below ``/plugins/{key}``, behind the
        page's login. Called once the plugin is in force; its routes are gone when it is not.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.declare(PluginRouter(function))
            return function

        return mount

    def mount_webhook_method(
        self, endpoint: str, name: str = "", description: str = ""
    ) -> Callable[[Function], Function]:
        """``async (ctx)``: called for a POST to ``/api/webhook/{endpoint}/{secret}``.

        The secret part is made by the bot and stays the same over restarts; ``nekro plugin list``
        shows the whole address. ``ctx.webhook_request`` is the `WebhookRequest`; there is no chat
        that asks, so what is sent names its chat. A dict or list that is returned is the answer.

        Args:
            endpoint: The part of the address that the author chooses.
            name: The name for people; empty for ``endpoint``.
            description: What it is for.

        Returns:
            A decorator that gives the function back.
        """

        def mount(function: Function) -> Function:
            self.declare(
                Webhook(
                    endpoint=endpoint,
                    name=name or endpoint,
                    description=description,
                    handler=function,
                )
            )
            return function

        return mount
