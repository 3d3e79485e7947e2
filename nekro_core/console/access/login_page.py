"""Makes the pages that come before the login: the login form, the form for the code of the second
factor, and the page on which an invited person chooses a password. They work without scripts."""

from html import escape

from nekro_core.chat.catalogue import preferred
from nekro_core.console.page_texts import texts_of
from nekro_core.operator.identity.passwords import LEAST_DIFFERENT, LONGEST, SHORTEST

_FRAME = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">{head}
<link rel="icon" href="data:,"><title>{title}</title><style>
:root{{color-scheme:light dark;--bg:#f6f5f2;--card:#fff;--ink:#1d1c1a;--soft:#6d6a64;
--line:#8d8a83;--accent:#4f5bd5;--bad:#b3261e}}
@media(prefers-color-scheme:dark){{:root{{--bg:#141416;--card:#1d1d21;--ink:#ececf0;--soft:#9b9aa3;
--line:#6a6a74;--accent:#8b95ff;--bad:#ff8a80}}}}
*{{box-sizing:border-box}}
body{{margin:0;min-height:100vh;display:grid;place-items:center;background:var(--bg);
color:var(--ink);padding:24px;
font:16px/1.6 system-ui,-apple-system,"Segoe UI","Noto Sans","Noto Sans CJK SC",sans-serif}}
main{{width:100%;max-width:420px;background:var(--card);border-radius:20px;padding:32px}}
h1{{font-size:22px;margin:0 0 8px;overflow-wrap:anywhere}} p{{color:var(--soft);margin:0 0 20px}}
p.bad{{color:var(--bad)}} code{{font-size:.9em;overflow-wrap:anywhere}}
label{{display:block;margin-bottom:12px;font-size:14px}} input{{margin-top:6px}}
form+p{{margin-top:28px}}
input,button{{width:100%;font:inherit;padding:12px 14px;border-radius:12px;
border:1px solid var(--line);background:var(--bg);color:inherit}}
button{{border:0;background:var(--accent);color:#fff;font-weight:600;cursor:pointer}}
@media(prefers-color-scheme:dark){{button{{color:#141416}}}}
input:focus-visible,button:focus-visible{{outline:3px solid var(--accent);outline-offset:2px}}
</style></head><body><main>{body}</main></body></html>"""


def login_page(accept_language: str, problem: str = "") -> str:
    """Make the login form. ``problem`` is the catalogue key of a sentence about a failed login."""
    language, say = _escaped(accept_language)
    body = (
        f"<h1>{say['login_title']}</h1>{_trouble(say, problem)}<p>{say['login_help']}</p>"
        '<form method="post" action="/login">'
        f"<label>{say['login_name']}<input name=name autocomplete=username maxlength=40 required "
        "autofocus></label>"
        f"<label>{say['login_password']}<input name=password type=password "
        f"autocomplete=current-password maxlength={LONGEST} required></label>"
        f"<button>{say['login_enter']}</button></form>"
        f"<p>{say['login_or']} <code>data/secrets/web_access_token</code></p>"
        '<form method="post" action="/login">'
        f"<label>{say['login_token']}<input name=token type=password autocomplete=off required>"
        f"</label><button>{say['login_open']}</button></form>"
    )
    return _page(language, say["login_title"], body)


def code_page(accept_language: str, half_login: str, problem: str = "") -> str:
    """Make the form for the code of the second factor. ``half_login`` is the secret that says who
    gave the right password."""
    language, say = _escaped(accept_language)
    body = (
        f"<h1>{say['code_title']}</h1>{_trouble(say, problem)}<p>{say['code_help']}</p>"
        '<form method="post" action="/login/code">'
        f'<input name=half type=hidden value="{escape(half_login)}">'
        f"<label>{say['code_field']}<input name=code inputmode=text autocomplete=one-time-code "
        "maxlength=64 required autofocus></label>"
        f"<button>{say['login_enter']}</button></form>"
    )
    return _page(language, say["code_title"], body)


def join_page(accept_language: str, name: str, secret: str, problem: str = "") -> str:
    """Make the form on which an invited person chooses a password."""
    language, say = _escaped(accept_language)
    numbers = {"shortest": SHORTEST, "longest": LONGEST, "different": LEAST_DIFFERENT}
    title = say["join_title"].format(name=escape(name))
    trouble = _trouble(say, problem).format(**numbers) if problem else ""
    body = (
        f"<h1>{title}</h1>{trouble}<p>{say['join_help'].format(**numbers)}</p>"
        '<form method="post" action="/join">'
        f'<input name=token type=hidden value="{escape(secret)}">'
        f'<input name=name type=hidden autocomplete=username value="{escape(name)}">'
        f"<label>{say['join_password']}<input name=password type=password "
        f"autocomplete=new-password minlength={SHORTEST} maxlength={LONGEST} required autofocus>"
        f"</label><button>{say['join_enter']}</button></form>"
    )
    return _page(language, title, body)


def notice_page(accept_language: str, title: str, notice: str) -> str:
    """Make a page with a sentence and a link to the login. Both texts are catalogue keys."""
    language, say = _escaped(accept_language)
    body = (
        f'<h1>{say[title]}</h1><p>{say[notice]}</p><p><a href="/login">{say["login_title"]}</a></p>'
    )
    return _page(language, say[title], body)


def step_in_page(accept_language: str, address: str) -> str:
    """Make a page that opens the site without a click.

    A redirect would not work. After a click on a link in another site's page, the browser treats
    the redirect as that site's request, and does not send the ``SameSite=Strict`` cookie.
    """
    language, say = _escaped(accept_language)
    target = escape(address)
    return _FRAME.format(
        language=language,
        head=f'<meta http-equiv="refresh" content="0;url={target}">',
        title=say["login_title"],
        body=f'<p><a href="{target}">{say["login_open"]}</a></p>',
    )


def _escaped(accept_language: str) -> tuple[str, dict[str, str]]:
    language = preferred(accept_language)
    return language, {key: escape(text) for key, text in texts_of("login", language).items()}


def _trouble(say: dict[str, str], problem: str) -> str:
    return f'<p class="bad" role="alert">{say[problem]}</p>' if problem else ""


def _page(language: str, title: str, body: str) -> str:
    """Put a page together. ``title`` and ``body`` are HTML."""
    return _FRAME.format(language=language, head="", title=title, body=body)
