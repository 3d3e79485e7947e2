"""Makes the two pages that come before the chat page: the login form, and the page that opens the
chat."""

from html import escape

from nekro_core.api.i18n import preferred

from .texts import texts

_FRAME = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">{head}
<link rel="icon" href="data:,"><title>{title}</title><style>
:root{{color-scheme:light dark;--bg:#f6f5f2;--card:#fff;--ink:#1d1c1a;--soft:#6d6a64;
--line:#e4e1da;--accent:#4f5bd5;--bad:#b3261e}}
@media(prefers-color-scheme:dark){{:root{{--bg:#141416;--card:#1d1d21;--ink:#ececf0;--soft:#9b9aa3;
--line:#303036;--accent:#8b95ff;--bad:#ff8a80}}}}
*{{box-sizing:border-box}}
body{{margin:0;min-height:100vh;display:grid;place-items:center;background:var(--bg);
color:var(--ink);padding:24px;
font:16px/1.6 system-ui,-apple-system,"Segoe UI","Noto Sans","Noto Sans CJK SC",sans-serif}}
main{{width:100%;max-width:420px;background:var(--card);border:1px solid var(--line);
border-radius:20px;padding:32px}}
h1{{font-size:22px;margin:0 0 8px}} p{{color:var(--soft);margin:0 0 20px}}
p.bad{{color:var(--bad)}} code{{font-size:.9em;overflow-wrap:anywhere}}
input,button{{width:100%;font:inherit;padding:12px 14px;border-radius:12px;
border:1px solid var(--line);background:var(--bg);color:inherit}}
button{{margin-top:12px;border:0;background:var(--accent);color:#fff;font-weight:600;
cursor:pointer}}
@media(prefers-color-scheme:dark){{button{{color:#141416}}}}
input:focus-visible,button:focus-visible{{outline:3px solid var(--accent);outline-offset:2px}}
</style></head><body><main>{body}</main></body></html>"""


def login_page(accept_language: str, problem: str = "") -> str:
    """Make the login form. ``problem`` is the catalogue key of a sentence about a failed login."""
    language = preferred(accept_language)
    say = {key: escape(sentence) for key, sentence in texts(language).items()}
    trouble = f'<p class="bad" role="alert">{say[problem]}</p>' if problem else ""
    body = (
        f"<h1>{say['login_title']}</h1><p>{say['login_help']}</p>"
        f"<p><code>data/secrets/web_access_token</code></p>{trouble}"
        '<form method="post" action="/login">'
        f'<input name="token" type="password" autocomplete="current-password" required autofocus '
        f'aria-label="{say["login_token"]}" placeholder="{say["login_token"]}">'
        f"<button>{say['login_enter']}</button></form>"
    )
    return _FRAME.format(language=language, head="", title=say["login_title"], body=body)


def step_in_page(accept_language: str, address: str) -> str:
    """Make a page that opens the chat without a click.

    A redirect would not work. After a click on a link in another site's page, the browser treats
    the redirect as that site's request, and does not send the ``SameSite=Strict`` cookie.
    """
    language = preferred(accept_language)
    say = texts(language)
    target = escape(address)
    return _FRAME.format(
        language=language,
        head=f'<meta http-equiv="refresh" content="0;url={target}">',
        title=escape(say["login_title"]),
        body=f'<p><a href="{target}">{escape(say["login_enter"])}</a></p>',
    )
