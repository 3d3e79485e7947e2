"""Serves the operator's page of outgoing messages, ``/ui/outbox``.

It lists only the messages in `OPEN_STATES`. Dropped messages would push these off the page. A
message is dropped by the operator, or because it is too old or there are too many. The HTTP API and
`nekro outbox list` can list dropped messages and send them again."""

from datetime import UTC, datetime
from html import escape
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse

from nekro_core.chat import plain_text
from nekro_core.chat.catalogue import preferred
from nekro_core.console.page_texts import texts_of
from nekro_core.console.plain.plain_page import OUTBOX as PATH
from nekro_core.console.plain.plain_page import plain_page
from nekro_core.delivery.errors import CannotDo
from nekro_core.operator.contract import OperatorHost
from nekro_core.store import DeliveryRow

_LISTED = 100
_SHOWN = 300


def outbox_page(operator: OperatorHost) -> APIRouter:
    """Make the router. It must be included before the chat page is mounted at ``/ui``."""
    router = APIRouter(include_in_schema=False)

    @router.get(PATH)
    async def show(request: Request, said: str = "") -> HTMLResponse:
        rows = await operator.outbox.listed(limit=_LISTED)
        language = preferred(request.headers.get("accept-language", ""))
        return HTMLResponse(_html(rows, language, said[:300]))

    @router.post(PATH + "/{delivery_id}/{what}")
    async def act(delivery_id: str, what: str) -> RedirectResponse:
        said = ""
        try:
            if what == "resend":
                await operator.outbox.resend(delivery_id[:64])
            elif what == "drop":
                await operator.outbox.drop(delivery_id[:64])
        except CannotDo as error:
            said = str(error)
        address = f"{PATH}?{urlencode({'said': said})}" if said else PATH
        return RedirectResponse(address, status_code=303)

    return router


def _html(rows: list[DeliveryRow], language: str, said: str) -> str:
    words = texts_of("plain", language)
    notice = f'<p class="said">{escape(said)}</p>' if said else ""
    lines = "".join(_row(row, language) for row in rows)
    body = (
        f"<table><tr><th>{escape(words['outbox_message'])}</th>"
        f"<th>{escape(words['outbox_state'])}</th><th></th></tr>{lines}</table>"
        if rows
        else f"<p>{escape(words['outbox_empty'])}</p>"
    )
    about = f"{notice}<p class=soft>{escape(words['outbox_help'])}</p>"
    return plain_page(language, words["outbox_title"], about + body, path=PATH)


def _row(row: DeliveryRow, language: str) -> str:
    words = texts_of("plain", language)
    at = datetime.fromtimestamp(row.created, UTC).astimezone().isoformat(" ", "seconds")
    text = escape(plain_text(row.segments)[:_SHOWN])
    actions = ["drop"] if row.state.can_be_dropped else []
    if row.state.can_be_resent:
        actions.insert(0, "resend")
    forms = "".join(
        f'<form method="post" action="{PATH}/{row.delivery_id}/{action}">'
        f"<button>{escape(words[f'outbox_{action}'])}</button></form>"
        for action in actions
    )
    return (
        f"<tr><td><p>{text}</p><small>{escape(str(row.chat_key))} · {escape(at)}</small></td>"
        f"<td>{escape(words[f'outbox_is_{row.state.value}'])}"
        f"<br><small>{escape(row.reason)}</small></td><td>{forms}</td></tr>"
    )
