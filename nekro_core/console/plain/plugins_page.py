"""Serves the operator's page of plugins, ``/ui/plugins``, and the same data over the HTTP API. Both
show the plugins, their problems, and what the next start will change. See docs/http-api.md."""

from html import escape

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from nekro_core.chat.catalogue import preferred
from nekro_core.console.page_texts import texts_of
from nekro_core.console.plain.plain_page import PLUGINS, plain_page
from nekro_core.console.plain.views import Json
from nekro_core.operator.contract import OperatorHost, PluginShown, PluginsShown

_COLOURS = {"loaded": "good", "broken": "bad"}


def plugins_page(operator: OperatorHost) -> APIRouter:
    """Make the router. It must be included before the chat page is mounted at ``/ui``."""
    router = APIRouter(include_in_schema=False)

    @router.get(PLUGINS)
    async def show(request: Request) -> HTMLResponse:
        language = preferred(request.headers.get("accept-language", ""))
        return HTMLResponse(_html(operator.plugins.shown(), language))

    return router


def add_plugins(router: APIRouter, operator: OperatorHost) -> None:
    """Add the route of the HTTP API to ``router``."""

    @router.get("/plugins")
    async def list_plugins() -> Json:
        shown = operator.plugins.shown()
        return {
            "plugins": [
                {
                    "item": each.item,
                    "key": each.key,
                    "version": each.version,
                    "state": each.state,
                    "tools": list(each.tools),
                    "problems": list(each.problems),
                }
                for each in shown.plugins
            ],
            "at_next_start": list(shown.at_next_start),
        }


def _html(shown: PluginsShown, language: str) -> str:
    words = texts_of("plain", language)
    notice = ""
    if shown.at_next_start:
        lines = "".join(f"<li>{escape(line)}</li>" for line in shown.at_next_start)
        notice = f'<div class="said">{escape(words["plugins_restart"])}<ul>{lines}</ul></div>'
    rows = "".join(_row(each, words[f"plugin_is_{each.state}"]) for each in shown.plugins)
    table = (
        f"<table><tr><th>{escape(words['plugins_plugin'])}</th>"
        f"<th>{escape(words['outbox_state'])}</th><th>{escape(words['plugins_tools'])}</th></tr>"
        f"{rows}</table>"
    )
    return plain_page(language, words["plugins_title"], notice + table, path=PLUGINS)


def _row(plugin: PluginShown, state: str) -> str:
    problems = "".join(f"<p class=bad>{escape(each)}</p>" for each in plugin.problems)
    name = escape(plugin.key or plugin.item)
    unnamed = plugin.author and not plugin.key.startswith(f"{plugin.author}.")
    by = f" · {escape(plugin.author)}" if unnamed else ""
    return (
        f"<tr><td><p>{name} <small>{escape(plugin.version)}{by}</small></p>"
        f"<small>{escape(plugin.description)}</small>{problems}</td>"
        f"<td><span class={_COLOURS.get(plugin.state, 'soft')}>{escape(state)}</span></td>"
        f"<td class=tools>{escape(', '.join(plugin.tools))}</td></tr>"
    )
