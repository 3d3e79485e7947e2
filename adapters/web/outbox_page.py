"""The operator's page of what goes out: ``/ui/outbox``. Plain HTML, so that it works where little
else does. The guard before the application asks for the login and looks at where a form is from."""

from datetime import UTC, datetime
from html import escape
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse

from nekro_core.api.adapter import CannotDo, DeliveryRow, Host
from nekro_core.api.chat import DeliveryState, plain_text

from .texts import preferred, texts

PATH = "/ui/outbox"
_LISTED = 100
_SHOWN = 300
_AGAIN = {DeliveryState.UNKNOWN, DeliveryState.REJECTED}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;"
    "color-scheme:light dark}table{border-collapse:collapse;width:100%}td,th{text-align:start;"
    "padding:.4rem .6rem;border-bottom:1px solid #8884;vertical-align:top}"
    "td p{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}small{opacity:.7}"
    "form{display:inline}button{font:inherit;margin:.1rem}.said{padding:.6rem;background:#8882}"
)


def outbox_page(host: Host) -> APIRouter:
    """The routes, to be included before the page's mount at ``/ui``."""
    router = APIRouter(include_in_schema=False)

    @router.get(PATH)
    async def show(request: Request, said: str = "") -> HTMLResponse:
        rows = await host.outbox.listed(limit=_LISTED)
        language = preferred(request.headers.get("accept-language", ""))
        return HTMLResponse(_html(rows, language, said[:300]))

    @router.post(PATH + "/{delivery_id}/{what}")
    async def act(delivery_id: str, what: str) -> RedirectResponse:
        said = ""
        try:
            if what == "resend":
                await host.outbox.resend(delivery_id[:64])
            elif what == "drop":
                await host.outbox.drop(delivery_id[:64])
        except CannotDo as error:
            said = str(error)
        address = f"{PATH}?{urlencode({'said': said})}" if said else PATH
        return RedirectResponse(address, status_code=303)

    return router


def _html(rows: list[DeliveryRow], language: str, said: str) -> str:
    words = texts(language)
    told = f'<p class="said">{escape(said)}</p>' if said else ""
    lines = "".join(_row(row, language) for row in rows)
    body = (
        f"<table><tr><th>{escape(words['outbox_message'])}</th>"
        f"<th>{escape(words['outbox_state'])}</th><th></th></tr>{lines}</table>"
        if rows
        else f"<p>{escape(words['outbox_empty'])}</p>"
    )
    title = escape(words["outbox_title"])
    return (
        f'<!doctype html><html lang="{language}"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>{told}"
        f"<p>{escape(words['outbox_help'])}</p>{body}</html>"
    )


def _row(row: DeliveryRow, language: str) -> str:
    words = texts(language)
    at = datetime.fromtimestamp(row.created, UTC).astimezone().isoformat(" ", "seconds")
    text = escape(plain_text(row.segments)[:_SHOWN])
    actions = ["drop"] if row.state is not DeliveryState.SENDING else []
    if row.state in _AGAIN:
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
