"""Makes the operator's plain pages. They are HTML without scripts, so they work even if the chat
page does not. `Guard` checks the login, and the origin of forms."""

from html import escape

from nekro_core.console.page_texts import texts_of
from nekro_core.console.plain.moved_pages import TURNS, UNDELIVERED
from nekro_core.operator.http_routes import PAGE

PLUGINS = f"{PAGE}/plugins"
_STYLE = """
:root{color-scheme:light dark;--bg:#faf9f7;--card:#fff;--ink:#1d1c1a;--soft:#6d6a64;--line:#e4e1da;
--accent:#4f5bd5;--on:#fff;--bad:#b3261e;--badbg:#b3261e14;--good:#2e7d4f}
@media(prefers-color-scheme:dark){:root{--bg:#141416;--card:#1d1d21;--ink:#ececf0;--soft:#9b9aa3;
--line:#303036;--accent:#8b95ff;--on:#141416;--bad:#ff8a80;--badbg:#ff8a801c;--good:#7ed6a0}}
*{box-sizing:border-box}
body{font:15px/1.55 system-ui,-apple-system,"Segoe UI","Noto Sans","Noto Sans CJK SC",sans-serif;
background:var(--bg);color:var(--ink);margin:0 auto;max-width:64rem;padding:1.25rem 1.25rem 3rem}
nav{display:flex;flex-wrap:wrap;gap:.25rem;margin:0 -.7rem 1.25rem}
nav a{padding:.35rem .7rem;border-radius:.6rem;color:var(--soft);text-decoration:none}
nav a:hover{color:var(--accent)} nav a[aria-current]{color:var(--ink);background:var(--card);
font-weight:600;box-shadow:inset 0 0 0 1px var(--line)}
h1{font-size:1.5rem;line-height:1.3;margin:0 0 .5rem} h2{font-size:1rem;margin:1.5rem 0 .4rem}
a{color:var(--accent)} p{margin:0 0 1rem;overflow-wrap:anywhere} .soft{color:var(--soft)}
table{border-collapse:separate;border-spacing:0;width:100%;background:var(--card);
border:1px solid var(--line);border-radius:1rem;overflow:hidden}
td,th{text-align:start;padding:.7rem .9rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-size:.85rem;color:var(--soft);font-weight:600} tr:last-child td{border-bottom:0}
td{min-width:5.5rem;overflow-wrap:anywhere} td:first-child{min-width:11rem}
td p{margin:0;white-space:pre-wrap} small{color:var(--soft)} td.tools{font-size:.9rem}
.bad{color:var(--bad)} .good{color:var(--good)} p.bad{margin-top:.35rem;font-size:.9rem}
form{display:inline} button{font:inherit;font-size:.9rem;margin:.1rem;padding:.3rem .8rem;
border:1px solid var(--line);border-radius:.6rem;background:var(--bg);color:inherit;cursor:pointer}
button:hover{border-color:var(--accent);color:var(--accent)}
.said{padding:.7rem .9rem;margin-bottom:1rem;border-radius:.8rem;background:var(--badbg)}
.said ul{margin:.2rem 0 0}
pre{margin:0 0 .6rem;padding:.8rem 1rem;border:1px solid var(--line);border-radius:.8rem;
background:var(--card);overflow:auto;max-height:26rem;white-space:pre-wrap;overflow-wrap:anywhere;
font:13px/1.55 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono","Noto Sans Mono CJK SC",monospace}
pre.bad{border-color:var(--bad)} summary{cursor:pointer;color:var(--soft);margin-bottom:.4rem}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
@media(max-width:40rem){body{padding:1rem .9rem 2rem} th{display:none}
table,tbody,tr,td{display:block;width:100%} table{background:none;border:0;border-radius:0}
tr{background:var(--card);border:1px solid var(--line);border-radius:.9rem;padding:.6rem .9rem;
margin-bottom:.6rem} tr:has(th){display:none} td{border:0;padding:.15rem 0;min-width:0}}
"""


def plain_page(language: str, title: str, body: str, *, path: str) -> str:
    """Make a page. ``body`` is HTML, and ``title`` is text. ``path`` is the page's address, which
    the navigation marks as current."""
    words = texts_of("plain", language)
    pages = (
        (f"{PAGE}/", words["chat_title"]),
        (TURNS, words["turns_title"]),
        (UNDELIVERED, words["outbox_title"]),
        (PLUGINS, words["plugins_title"]),
    )
    links = "".join(
        f'<a href="{address}"{" aria-current=page" if address == path else ""}>{escape(name)}</a>'
        for address, name in pages
    )
    return (
        f'<!doctype html><html lang="{language}"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<nav>{links}</nav><h1>{escape(title)}</h1>{body}</html>"
    )
