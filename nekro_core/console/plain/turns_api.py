"""Lists turns over HTTP: whose message began a turn, how it ended, its cost, and the code that ran.
See docs/http-api.md."""

from fastapi import APIRouter

from nekro_core.chat import ChatKey, ChatKeyError, plain_text
from nekro_core.console.plain.views import Json, run_view
from nekro_core.operator.contract import OperatorHost
from nekro_core.operator.http_routes import WebApiError
from nekro_core.store import LoggedTurn

_LISTED = 50
_MOST_LISTED = 500
_SHOWN = 300
_LARGEST = 2**63 - 1
"""The largest number that a database takes for an id."""


def add_turns(router: APIRouter, operator: OperatorHost) -> None:
    """Add the routes to ``router``."""

    @router.get("/turns")
    async def list_turns(chat: str = "", before: int = 0, limit: int = _LISTED) -> Json:
        if not 1 <= limit <= _MOST_LISTED:
            raise WebApiError(400, "number", f"limit: {limit}, expected 1 to {_MOST_LISTED}")
        try:
            key = ChatKey.parse(chat) if chat else None
        except ChatKeyError as error:
            raise WebApiError(400, "chat", str(error)) from None
        before = min(max(0, before), _LARGEST)
        turns = await operator.turns.newest(chat_key=key, before=before, limit=limit)
        return {"turns": [turn_view(each) for each in turns]}

    @router.get("/turns/{turn_id:int}")
    async def read_turn(turn_id: int) -> Json:
        turn = await operator.turns.one(turn_id) if turn_id <= _LARGEST else None
        if turn is None:
            raise WebApiError(404, "turn", f"there is no turn {turn_id}")
        logged, steps, runs = turn
        return {
            **turn_view(logged),
            "replies": [step.reply for step in steps],
            "runs": [run_view(run) for run in runs],
        }


def turn_view(logged: LoggedTurn) -> Json:
    """Convert a turn to JSON. ``stop`` is empty while the turn runs."""
    turn, usage = logged.turn, logged.usage
    return {
        "id": turn.turn_id,
        "chat_key": str(turn.chat_key),
        "user_id": turn.user_id,
        "asked": _question(logged),
        "stop": turn.stop,
        "started": turn.started,
        "seconds": _seconds(logged),
        "steps": usage.steps,
        "tokens": usage.tokens,
        "cost": usage.cost,
        "model": logged.model,
    }


def _question(logged: LoggedTurn) -> str:
    record = logged.asked
    return plain_text(record.segments)[:_SHOWN] if record and not record.recalled else ""


def _seconds(logged: LoggedTurn) -> float:
    return round(max(0.0, logged.turn.ended - logged.turn.started), 3)
