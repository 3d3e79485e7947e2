"""Re-exports the types of `nekro_core.api.adapter.OperatorHost.turns`, the operator's turn log."""

from nekro_core.operator.contract import TurnLog
from nekro_core.store import LoggedTurn, Step, Usage

__all__ = ["LoggedTurn", "Step", "TurnLog", "Usage"]
