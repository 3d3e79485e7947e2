"""The operator's plain pages beside the chat: HTML alone, so that they work where little else does.
The guard before the application asks for the login and looks at where a form is from."""

from html import escape

from .texts import texts

OUTBOX = "/ui/outbox"
PLUGINS = "/ui/plugins"
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;"
    "color-scheme:light dark}table{border-collapse:collapse;width:100%}td,th{text-align:start;"
    "padding:.4rem .6rem;border-bottom:1px solid #8884;vertical-align:top}"
    "td p{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}small{opacity:.7}"
    "form{display:inline}button{font:inherit;margin:.1rem}.said{padding:.6rem;background:#8882}"
    "nav a{margin-inline-end:1rem}"
)


def plain_page(language: str, title: str, body: str) -> str:
    """A whole page. ``body`` is HTML, ``title`` is text."""
    words = texts(language)
    ways = ((PLUGINS, words["plugins_title"]), (OUTBOX, words["outbox_title"]))
    links = "".join(f'<a href="{path}">{escape(name)}</a>' for path, name in ways)
    return (
        f'<!doctype html><html lang="{language}"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        f"<nav>{links}</nav><h1>{escape(title)}</h1>{body}</html>"
    )
