"""An adapter that cannot start."""

from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.adapter import Capabilities


class BrokenAdapter:
    """Raises an error when it is started, like an adapter whose platform cannot be reached."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self._problem = problem

    def capabilities(self, chat_key: ChatKey) -> Capabilities:
        return Capabilities(inline=frozenset({Text}), alone=frozenset())

    async def send(self, delivery: Delivery) -> Receipt:
        return Receipt(state=DeliveryState.PENDING, reason="not started")

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:
        return frozenset()

    async def start(self) -> None:
        raise OSError(self._problem)

    async def aclose(self) -> None:
        pass
