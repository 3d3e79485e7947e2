"""Makes the pages that come before the login: the login form, the form for the code of the second
factor, and the page on which an invited person chooses a password. They are templates of Jinja,
which escapes every value, and they work without scripts."""

from functools import cache, partial
from typing import TYPE_CHECKING

from nekro_core.chat.catalogue import preferred
from nekro_core.console.texts import console_texts
from nekro_core.operator.identity.passwords import LEAST_DIFFERENT, LONGEST, SHORTEST

if TYPE_CHECKING:
    from jinja2 import Environment


def login_page(accept_language: str, problem: str = "") -> str:
    """Make the login form. ``problem`` is the catalogue key of a sentence about a failed login."""
    return _made("login.html", accept_language, problem=problem, longest=LONGEST)


def code_page(accept_language: str, half_login: str, problem: str = "") -> str:
    """Make the form for the code of the second factor. ``half_login`` is the secret by which the
    bot knows who gave the right password."""
    return _made("code.html", accept_language, problem=problem, half_login=half_login)


def join_page(accept_language: str, name: str, secret: str, problem: str = "") -> str:
    """Make the form on which an invited person chooses a password."""
    numbers = {"shortest": SHORTEST, "longest": LONGEST, "different": LEAST_DIFFERENT}
    return _made(
        "join.html", accept_language, problem=problem, name=name, secret=secret, numbers=numbers
    )


def notice_page(accept_language: str, title: str, notice: str) -> str:
    """Make a page with a sentence and a link to the login. Both texts are catalogue keys."""
    return _made("notice.html", accept_language, title=title, notice=notice)


def step_in_page(accept_language: str, address: str) -> str:
    """Make a page that opens the site without a click.

    A redirect would not work. After a click on a link in another site's page, the browser treats
    the redirect as that site's request, and does not send the ``SameSite=Strict`` cookie.
    """
    return _made("step_in.html", accept_language, address=address)


def _made(template: str, accept_language: str, **values: object) -> str:
    language = preferred(accept_language)
    say = partial(_say, language)
    return _templates().get_template(template).render(language=language, say=say, **values)


def _say(language: str, key: str, **values: object) -> str:
    return console_texts().say(f"login.{key}", language, **values)


@cache
def _templates() -> "Environment":
    # This import takes 25 ms. A bot without visitors does not need it.
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    loader = PackageLoader("nekro_core.console.access")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
