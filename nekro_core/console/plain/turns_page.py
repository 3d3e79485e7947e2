"""Serves the operator's page of the turns in all chats, ``/ui/turns``, and the same data over the
HTTP API. Both show whose message began a turn, how the turn ended, its cost, and the code that ran.
See docs/http-api.md."""

import time
from datetime import UTC, datetime
from html import escape
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from nekro_core.chat import ChatKey, ChatKeyError, RunRecord, plain_text
from nekro_core.chat.catalogue import preferred
from nekro_core.console.page_texts import texts_of
from nekro_core.console.plain.plain_page import TURNS, plain_page
from nekro_core.console.plain.views import Json, run_view
from nekro_core.operator.contract import OperatorHost
from nekro_core.operator.http_routes import WebApiError
from nekro_core.store import LoggedTurn, Step, Usage

_LISTED = 50
_MOST_LISTED = 500
_SHOWN = 300
_DAY_S = 86_400.0
_AS_IT_SHOULD = frozenset({"finished", "stopped"})


def turns_page(operator: OperatorHost) -> APIRouter:
    """Make the router. It must be included before the chat page is mounted at ``/ui``."""
    router = APIRouter(include_in_schema=False)

    @router.get(TURNS)
    async def show(request: Request, chat: str = "", before: int = 0) -> HTMLResponse:
        language = preferred(request.headers.get("accept-language", ""))
        try:
            key = ChatKey.parse(chat) if chat else None
        except ChatKeyError:
            key = None
        turns = await operator.turns.newest(chat_key=key, before=max(0, before), limit=_LISTED)
        spent = await operator.turns.spent(since=time.time() - _DAY_S)
        return HTMLResponse(_list(turns, spent, language, chat if key else ""))

    @router.get(TURNS + "/{turn_id:int}")
    async def show_one(request: Request, turn_id: int) -> HTMLResponse:
        language = preferred(request.headers.get("accept-language", ""))
        logged = await operator.turns.one(turn_id)
        if logged is None:
            words = texts_of("plain", language)
            notice = f"<p>{escape(words['turns_gone'])}</p>"
            return HTMLResponse(plain_page(language, words["turns_title"], notice, path=TURNS), 404)
        return HTMLResponse(_one(*logged, language))

    return router


def add_turns(router: APIRouter, operator: OperatorHost) -> None:
    """Add the routes of the HTTP API to ``router``."""

    @router.get("/turns")
    async def list_turns(chat: str = "", before: int = 0, limit: int = _LISTED) -> Json:
        if not 1 <= limit <= _MOST_LISTED:
            raise WebApiError(400, "number", f"limit: {limit}, expected 1 to {_MOST_LISTED}")
        try:
            key = ChatKey.parse(chat) if chat else None
        except ChatKeyError as error:
            raise WebApiError(400, "chat", str(error)) from None
        turns = await operator.turns.newest(chat_key=key, before=max(0, before), limit=limit)
        return {"turns": [turn_view(each) for each in turns]}

    @router.get("/turns/{turn_id:int}")
    async def read_turn(turn_id: int) -> Json:
        turn = await operator.turns.one(turn_id)
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


def _list(turns: list[LoggedTurn], spent: Usage, language: str, chat: str) -> str:
    words = texts_of("plain", language)
    tokens = spent.tokens
    day = words["turns_day"].format(turns=spent.turns, tokens=f"{tokens:,}")
    if spent.cost:
        day += " " + words["turns_cost"].format(cost=_money(spent))
    about = f"<p>{escape(day)}</p><p class=soft>{escape(words['turns_help'])}</p>"
    if chat:
        about += f'<p>{escape(chat)} · <a href="{TURNS}">{escape(words["turns_all"])}</a></p>'
    if not turns:
        body = f"<p>{escape(words['turns_empty'])}</p>"
        return plain_page(language, words["turns_title"], about + body, path=TURNS)
    heads = "".join(
        f"<th>{escape(words[key])}</th>" for key in ("turns_asked", "turns_ended", "turns_used")
    )
    rows = "".join(_row(each, language) for each in turns)
    body = f"<table><tr>{heads}</tr>{rows}</table>"
    if len(turns) == _LISTED:
        query = {"before": turns[-1].turn.turn_id} | ({"chat": chat} if chat else {})
        older = escape(words["turns_older"])
        body += f'<p><br><a href="{TURNS}?{escape(urlencode(query))}">{older}</a></p>'
    return plain_page(language, words["turns_title"], about + body, path=TURNS)


def _row(logged: LoggedTurn, language: str) -> str:
    words, turn = texts_of("plain", language), logged.turn
    at = datetime.fromtimestamp(turn.started, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    question = escape(_question(logged) or words["turns_forgotten"])
    of_chat = f"{TURNS}?{escape(urlencode({'chat': str(turn.chat_key)}))}"
    return (
        f'<tr><td><p><a href="{TURNS}/{turn.turn_id}">{question}</a></p>'
        f'<small>{escape(_who(logged))} · <a href="{of_chat}">{escape(str(turn.chat_key))}</a>'
        f" · {escape(at)}</small></td>"
        f"<td>{_ended(logged, language)}</td><td><small>{escape(_used(logged, language))}</small>"
        "</td></tr>"
    )


def _one(logged: LoggedTurn, steps: list[Step], runs: list[RunRecord], language: str) -> str:
    words = texts_of("plain", language)
    question = escape(_question(logged) or words["turns_forgotten"])
    about = (
        f"<p>{question}<br><small>{escape(_who(logged))} · "
        f"{escape(str(logged.turn.chat_key))}</small></p>"
        f"<p>{_ended(logged, language)}<br><small>{escape(_used(logged, language))}</small></p>"
    )
    ran = "".join(_run(run, language) for run in runs)
    wrote = "".join(f"<pre>{escape(step.reply)}</pre>" for step in steps)
    if wrote:
        wrote = f"<details><summary>{escape(words['turns_wrote'])}</summary>{wrote}</details>"
    title = f"{words['turns_title']} · {logged.turn.turn_id}"
    return plain_page(language, title, about + ran + wrote, path=TURNS)


def _run(run: RunRecord, language: str) -> str:
    words = texts_of("plain", language)
    parts = (("run_code", run.code), ("run_output", run.output), ("run_error", run.error))
    return "".join(
        f"<h2>{escape(words[key])}</h2><pre{' class=bad' if key == 'run_error' else ''}>"
        f"{escape(text.strip())}</pre>"
        for key, text in parts
        if text.strip()
    )


def _who(logged: LoggedTurn) -> str:
    name = logged.asked.sender.name if logged.asked else ""
    return name or logged.turn.user_id or "-"


def _ended(logged: LoggedTurn, language: str) -> str:
    """Return HTML that says how a turn ended. If it ended because of a problem, the HTML has the
    exact stop reason too."""
    words, stop = texts_of("plain", language), logged.turn.stop or "running"
    ending = words.get(f"turn_is_{stop}") or words.get(f"turn_is_{stop.partition('_')[0]}") or stop
    if stop == "running":
        return escape(ending)
    if stop in _AS_IT_SHOULD:
        return f"<span class=good>{escape(ending)}</span>"
    return f"<span class=bad>{escape(ending)}</span><br><small>{escape(stop)}</small>"


def _used(logged: LoggedTurn, language: str) -> str:
    usage = logged.usage
    tokens = usage.tokens
    summary = texts_of("plain", language)["turns_use"].format(
        steps=usage.steps, tokens=f"{tokens:,}", seconds=f"{_seconds(logged):.1f}"
    )
    priced = f" · {_money(usage)}" if usage.cost else ""
    return f"{summary}{priced} · {logged.model}".removesuffix(" · ")


def _money(usage: Usage) -> str:
    return f"{usage.cost:.4g}"
