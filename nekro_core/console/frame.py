"""Draws what all pages of the console have in common: navigation, search, theme and language."""

from collections.abc import Awaitable, Callable
from copy import copy
from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import quote

import anyio
from loguru import logger
from nicegui import Client, ui
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from nekro_core.chat.catalogue import LANGUAGES, preferred
from nekro_core.console.access.authentication import Visit
from nekro_core.console.access.live_visits import LOOK_EVERY_S
from nekro_core.console.jobs_menu import JobsMenu
from nekro_core.console.open_pages import MAX_PAGES, OpenPages
from nekro_core.console.texts import console_texts
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.operator.operator import Operator
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.store import StoreUnavailable
from nekro_core.system.errors import NekroError

RECONNECT_S = 20.0
"""If a browser is disconnected for at most this many seconds, it keeps its page, with everything
that was typed. After a longer time, it loads the page again."""
_LEFT_S = 0.5
"""The same as `RECONNECT_S`, for a page that the person has left and cannot come back to. A busy
browser may send its last events within this time."""
_RELOAD_S = 1.0
"""Seconds that a browser gets to load a page again, before the page is deleted."""
BUILD_S = 60.0
"""Time limit for building a page, in seconds. It usually takes less than a second; the limit is
high so that a busy machine does not cause an error."""
THEME_COOKIE = "nekro_theme"
LANGUAGE_COOKIE = "nekro_language"

ActorOf = Callable[[Request], Actor]
Draw = Callable[[View], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePage:
    """One page of the console.

    Attributes:
        name: The last part of its address and the folder of its texts; empty for the first page.
        group: The heading under which the navigation shows it; empty for pages that it does not
            show.
        icon: The name of a Material icon.
        role: The role that a person needs.
        draw: Draws the page's content.
        path: What follows the name in the address, for example ``/{turn_id}``.
        of_cluster: Whether the navigation shows it only if the bot is several processes.
        of_process: Whether it shows the state of one process. If the bot is several processes, the
            page then says which one that is.
    """

    name: str
    group: str
    icon: str
    draw: Draw
    role: AccessRole = AccessRole.VIEWER
    path: str = ""
    of_cluster: bool = False
    of_process: bool = False

    def listed(self, view: View) -> bool:
        """Return whether the navigation shows the page to a person."""
        fits = view.operator.cluster.several or not self.of_cluster
        return bool(self.group) and view.may(self.role) and fits

    @property
    def address(self) -> str:
        """The page's address."""
        return f"{ROOT}/{self.name}".rstrip("/")


def add_pages(
    pages: tuple[ConsolePage, ...],
    operator: Operator,
    actor_of: ActorOf,
    closing: anyio.Event,
    bot_name: str,
) -> None:
    """Add the pages to NiceGUI's application.

    Args:
        pages: The pages, in the order of the navigation.
        operator: The queries and actions.
        actor_of: Returns who makes a request. The guard has checked the login before.
        closing: Set when the bot ends.
        bot_name: The bot's name, for the titles.
    """
    opened = OpenPages()
    for page in pages:
        _add_page(page, pages, operator, actor_of, closing, bot_name, opened)


def _add_page(
    page: ConsolePage,
    pages: tuple[ConsolePage, ...],
    operator: Operator,
    actor_of: ActorOf,
    closing: anyio.Event,
    bot_name: str,
    opened: OpenPages,
) -> None:
    address = page.address.removeprefix("/ui") + page.path

    @ui.page(
        address,
        title=bot_name,
        language=None,
        reconnect_timeout=RECONNECT_S,
        response_timeout=BUILD_S,
    )
    async def show(client: Client, request: Request) -> Response | None:
        language = _language_of(request)
        visit: Visit | None = getattr(request.state, "visit", None)
        if visit is not None and not opened.admit(visit.person_id, client):
            told = console_texts().say("frame.too_many_pages", language, most=MAX_PAGES)
            return PlainTextResponse(told, 429)
        view = View(
            operator=operator,
            actor=actor_of(request),
            language=language,
            place={name: str(value) for name, value in request.path_params.items()},
            look_again=visit.current if visit else None,
            session_id=visit.session_id if visit else 0,
        )
        title = view.say(f"frame.page_{page.name or 'home'}")
        ui.page_title(f"{title} · {bot_name}")
        _draw_head(request, language)
        ui.on("page_left", lambda: _forget_soon(client))
        with _draw_frame(view, page, pages, bot_name):
            if not view.may(page.role):
                ui.label(
                    view.say("frame.not_allowed", role=view.say(f"people.role_{page.role}"))
                ).classes("nc-empty")
            else:
                await _draw(page, view)
        await client.connected()
        if client.is_deleted:  # the browser closed the page before it connected
            return None
        async with anyio.create_task_group() as tasks:
            for task in view.background:
                tasks.start_soon(_guarded, task, client)
            tasks.start_soon(_until, closing, tasks.cancel_scope)
            tasks.start_soon(_reload_when_changed, view, client)
            await client.disconnected()
            tasks.cancel_scope.cancel()
        return None


def _forget_soon(client: Client) -> None:
    """Delete the page's elements and end its tasks as soon as the browser's connection has ended.
    Otherwise each page that a person left would go on working for 20 s."""
    client.page = copy(client.page)
    client.page.reconnect_timeout = _LEFT_S


async def _draw(page: ConsolePage, view: View) -> None:
    """Draw the content. If this fails, show the error in the place of the content, so that the
    navigation still works."""
    try:
        if page.of_process and view.operator.cluster.several:
            told = view.say("frame.of_process", node=view.operator.cluster.node)
            ui.label(told).classes("nc-soft nc-small")
        await page.draw(view)
    except NekroError as error:
        ui.label(str(error)).classes("nc-empty nc-bad")
    except Exception as error:  # noqa: BLE001 - a fault of ours; the other pages must stay usable
        logger.exception("the page {} cannot be drawn", page.name)
        ui.label(f"{type(error).__name__}: {error}").classes("nc-empty nc-bad")


async def _guarded(task: Callable[[], Awaitable[None]], client: Client) -> None:
    try:
        with client.layout:
            await task()
    except Exception:  # noqa: BLE001 - one failed task must not close the page
        logger.exception("a task of a page of the console failed")


async def _reload_when_changed(view: View, client: Client) -> None:
    """Load the page again when its person was logged out or has another role."""
    while True:
        await anyio.sleep(LOOK_EVERY_S)
        try:
            if await view.is_current():
                continue
        except StoreUnavailable:
            continue
        client.run_javascript("location.reload()")
        # The browser may not have loaded the page again, and may connect to the old page with
        # another login. The forms of the old page act for the person who opened it, so it is
        # deleted.
        await anyio.sleep(_RELOAD_S)
        if not client.is_deleted:
            client.delete()
        return


async def _until(closing: anyio.Event, scope: anyio.CancelScope) -> None:
    await closing.wait()
    scope.cancel()


def _language_of(request: Request) -> str:
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    return chosen if chosen in LANGUAGES else preferred(request.headers.get("accept-language", ""))


def _draw_head(request: Request, language: str) -> None:
    style = (files(__package__) / "static" / "console.css").read_text("utf-8")
    ui.add_head_html(f"<style>{style}</style>")
    script = (files(__package__) / "static" / "console.js").read_text("utf-8")
    ui.add_head_html(f"<script>document.documentElement.lang = '{language}';{script}</script>")
    ui.colors(primary="#4f5bd5", negative="#b3261e", positive="#2e7d4f", warning="#8a5a00")
    theme = {"light": False, "dark": True}.get(request.cookies.get(THEME_COOKIE, ""))
    ui.dark_mode(theme)


def _draw_frame(
    view: View, page: ConsolePage, pages: tuple[ConsolePage, ...], bot_name: str
) -> ui.element:
    """Draw the frame. Returns the element for the page's content."""
    # With ``show-if-above``, the browser opens the drawer if the window is wide enough. The value
    # is False. With ``value=None``, NiceGUI would ask the browser whether the drawer is open, and
    # would log an error if the person has left the page meanwhile.
    drawer = ui.left_drawer(value=False, bordered=True).classes("nc-drawer")
    drawer.props("width=256 show-if-above")
    with drawer:
        _draw_navigation(view, page, pages, bot_name)
    with ui.header().classes("nc-header"):
        menu = ui.button(icon="menu", on_click=drawer.toggle).props("flat round dense")
        menu.classes("nc-menu").props(f'aria-label="{view.say("frame.menu")}"')
        with ui.element("h1").classes("nc-title"):
            ui.label(view.say(f"frame.page_{page.name or 'home'}"))
        ui.space()
        JobsMenu(view)
        _draw_palette(view, pages)
        _draw_preferences(view)
    with ui.element("div").classes("nc-offline").props('role="status"'):
        ui.label(view.say("frame.offline"))
    view.toasts = ui.column().classes("nc-toasts")
    return ui.element("main").classes("nc-main")


def _draw_navigation(
    view: View, current: ConsolePage, pages: tuple[ConsolePage, ...], bot_name: str
) -> None:
    with ui.element("nav").props(f'aria-label="{view.say("frame.pages")}"').classes("nc-nav"):
        with ui.link(target=link_to("/ui/")).classes("nc-nav-link nc-nav-chat"):
            ui.icon("chat_bubble_outline")
            ui.label(view.say("frame.to_chat", bot=bot_name))
        group = ""
        for page in pages:
            if not page.listed(view):
                continue
            if page.group != group:
                group = page.group
                ui.label(view.say(f"frame.group_{group}")).classes("nc-nav-group")
            link = ui.link(target=link_to(page.address)).classes("nc-nav-link")
            if page.name == current.name:
                link.classes("nc-nav-on").props('aria-current="page"')
            with link:
                ui.icon(page.icon)
                ui.label(view.say(f"frame.page_{page.name or 'home'}"))


def _draw_palette(view: View, pages: tuple[ConsolePage, ...]) -> None:
    """Draw the search that Ctrl-K opens. It finds pages by their names, and everything that
    `nekro_core.operator.finder.Finder` finds."""
    entries = [
        (view.say(f"frame.page_{page.name or 'home'}"), page.address, page.icon)
        for page in pages
        if page.listed(view)
    ]
    with ui.dialog().classes("nc-palette").props("position=top") as dialog, ui.card():
        words = ui.input(placeholder=view.say("frame.find_hint"))
        words.props("autofocus borderless debounce=120")
        words.props(f'aria-label="{view.say("frame.find")}"').classes("nc-palette-words")
        found = ui.column().classes("nc-palette-found")

    hits: list[tuple[str, str, str, str]] = []

    def show() -> None:
        found.clear()
        with found:
            for name, more, address, icon in hits:
                with ui.link(target=link_to(address)).classes("nc-nav-link"):
                    ui.icon(icon)
                    ui.label(name).classes("nc-palette-name")
                    ui.label(more).classes("nc-soft nc-small nc-palette-more")
            if not hits:
                ui.label(view.say("frame.found_nothing")).classes("nc-soft nc-palette-nothing")

    async def search() -> None:
        text = (words.value or "").strip()[:200]
        wanted = text.casefold()
        of_pages = [
            (name, "", address, icon)
            for name, address, icon in entries
            if wanted in name.casefold()
        ]
        more = await _found(view, text) if text else []
        if text == (words.value or "").strip()[:200]:  # nothing more was typed
            hits[:] = [*of_pages, *more]
            show()

    async def go() -> None:
        await search()
        if hits:
            ui.navigate.to(link_to(hits[0][2]))

    async def begin() -> None:
        words.value = ""
        dialog.open()
        await search()

    words.on_value_change(search)
    words.on("keydown.enter", go)
    button = ui.button(icon="search", on_click=begin).props("flat round dense")
    button.classes("nc-find-button").props(f'aria-label="{view.say("frame.find")} (Ctrl-K)"')


async def _found(view: View, text: str) -> list[tuple[str, str, str, str]]:
    """Find chats, turns, plugins and settings by a text. Returns for each: the title, further
    details, the address and the icon."""
    try:
        found = await view.operator.finder.find(view.actor, text=text)
    except NekroError as error:
        view.show_error(error)
        return []
    places = {
        "chat": ("chats/", "forum"),
        "turn": ("turns/", "timeline"),
        "plugin": ("plugins/", "extension"),
        "setting": ("settings?find=", "settings"),
    }
    return [
        (
            f"#{hit.key} {hit.title}" if hit.kind == "turn" else hit.title,
            "" if hit.more == hit.title else hit.more,
            f"{ROOT}/{places[hit.kind][0]}{quote(hit.key, safe='')}",
            places[hit.kind][1],
        )
        for hit in found
    ]


def _draw_preferences(view: View) -> None:
    with ui.button(icon="tune").props("flat round dense") as button:
        button.props(f'aria-label="{view.say("frame.preferences")}"')
        with ui.menu():
            ui.menu_item(
                view.say("frame.account", name=view.actor.name),
                lambda: ui.navigate.to(link_to(f"{ROOT}/account")),
            )
            ui.menu_item(view.say("frame.log_out"), _log_out)
            ui.separator()
            for name in ("auto", "light", "dark"):
                ui.menu_item(
                    view.say(f"frame.theme_{name}"), lambda name=name: _prefer(THEME_COOKIE, name)
                )
            ui.separator()
            for language in LANGUAGES:
                ui.menu_item(
                    console_texts().say("frame.language", language),
                    lambda language=language: _prefer(LANGUAGE_COOKIE, language),
                )


def _log_out() -> None:
    """End the browser's session. The browser itself sends the form for this, because only an HTTP
    request can send and delete the session's cookie."""
    ui.run_javascript(
        'const form = document.createElement("form"); form.method = "post"; '
        'form.action = "/logout"; document.body.append(form); form.submit();'
    )


def _prefer(cookie: str, value: str) -> None:
    """Store a choice (theme or language) in a cookie of the browser, and load the page again."""
    ui.run_javascript(
        f'document.cookie = "{cookie}={value}; path=/ui; max-age=31536000; samesite=lax";'
        "location.reload()"
    )
