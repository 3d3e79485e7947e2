"""What an operator is shown of turns: `nekro_core.api.adapter.OperatorHost.turns`."""

from nekro_core.operator.contract import TurnLog
from nekro_core.store import LoggedTurn, Step, Usage

__all__ = ["LoggedTurn", "Step", "TurnLog", "Usage"]
