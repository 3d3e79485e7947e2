"""Draws the first page: what the bot does today, what is wrong and how to repair it, and the first
steps of a new bot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from nicegui import ui

from nekro_core.console.pages.statistics import draw_tile
from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import badge, heading, local_time, start_job
from nekro_core.delivery.platforms.contract import AccountState
from nekro_core.delivery.platforms.switch import PlatformState, PlatformStatus
from nekro_core.llm.embedded.model import EmbeddedPhase, EmbeddedState
from nekro_core.operator.elsewhere import ProcessView
from nekro_core.operator.errors import NoSuchItem
from nekro_core.operator.health import Finding
from nekro_core.operator.mcp import McpServerView
from nekro_core.operator.models import ModelView
from nekro_core.operator.platforms import AccountView
from nekro_core.operator.plugin_views import PluginsView
from nekro_core.operator.roles import AccessRole
from nekro_core.operator.statistics import TodayView
from nekro_core.operator.turns import TurnView

_READ_AGAIN_S = 5.0
_OFF = frozenset({AccountState.OFFLINE, AccountState.FAILED})
_WEB = "web"
"""The platform of the bot's own chat page, which every bot has."""
_MANY = 1000
_PAGES = MappingProxyType({"settings": "settings", "adapters": "platforms"})
"""For areas of the health check: the page on which a problem of the area is repaired."""
_MCP_BROKEN = frozenset({"waiting", "wrong"})
_TILES = ("messages", "sent", "turns", "cost", "first_words", "not_delivered")
_MODEL_FAILED = "model_"
"""If a turn ended because its model failed, the reason for its end begins with this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BotState:
    """What the page shows."""

    today: TodayView
    undelivered: int
    platforms: Sequence[PlatformStatus]
    accounts: Sequence[AccountView]
    models: Sequence[ModelView]
    plugins: PluginsView
    embedded: EmbeddedState | None
    has_password: bool
    problems: Sequence[Finding]
    mcp: Sequence[McpServerView]
    newest_turn: TurnView | None
    processes: Sequence[ProcessView]


async def home_page(view: View) -> None:
    """Draw the page."""
    shown = await _read(view)

    tiles: _TodayTiles

    @ui.refreshable
    def live() -> None:
        nonlocal tiles
        _draw_steps(view, shown)
        _draw_wrong(view, shown)
        tiles = _TodayTiles(view)
        tiles.write(shown)
        _draw_running(view, shown)

    async def look() -> None:
        nonlocal shown
        before, shown = shown, await _read(view)
        # Each message changes the figures of today. If the whole page were drawn again, the focus
        # of the keyboard would be lost, and drawing would delay running turns by some milliseconds.
        if _apart_from_figures(shown) != _apart_from_figures(before):
            live.refresh()
        else:
            tiles.write(shown)

    live()
    await _draw_health(view)
    ui.timer(_READ_AGAIN_S, look, immediate=False)


async def _read(view: View) -> _BotState:
    actor, operator = view.actor, view.operator
    try:
        has_password = (await operator.people.myself(actor)).has_password
    except NoSuchItem:  # logged in by the link of the first start, which belongs to no person
        has_password = False
    return _BotState(
        today=await operator.statistics.today(actor),
        undelivered=await operator.undelivered.count(actor),
        platforms=await operator.platforms.listed(actor),
        accounts=await operator.platforms.accounts(actor),
        models=await operator.models.all(actor),
        plugins=await operator.plugins.every(actor),
        embedded=_rounded(await operator.embedded.state(actor)),
        has_password=has_password,
        problems=await operator.health.problems(actor),
        mcp=[each for each in (await operator.mcp.all(actor)).servers if each.phase in _MCP_BROKEN],
        newest_turn=next(iter(await operator.turns.list(actor, limit=1)), None),
        processes=await operator.cluster.processes(actor),
    )


def _rounded(state: EmbeddedState | None) -> EmbeddedState | None:
    """Return the state with its progress in whole percents, so that the page is not drawn again for
    each downloaded piece."""
    if state is None:
        return None
    return replace(state, done=int(100 * state.share), total=100 if state.total else 0)


def _apart_from_figures(state: _BotState) -> Sequence[object]:
    """Return what the page shows apart from the figures of today."""
    turn = state.newest_turn
    accounts = [
        (each.platform, each.status.state, each.status.account, each.status.last_error)
        for each in state.accounts
    ]
    return (
        *(state.undelivered, state.platforms, accounts, state.models, state.plugins),
        *(state.embedded, state.has_password, state.problems, state.mcp),
        *((each.node, each.reachable, each.problem) for each in state.processes),
        turn if turn is not None and turn.stop.startswith(_MODEL_FAILED) else None,
        state.today.ever.messages > 0,
    )


class _TodayTiles:
    """The figures of today, and a note that says which part of the cost is computed from published
    prices."""

    def __init__(self, view: View) -> None:
        self._view = view
        heading(view.say("home.today"))
        with ui.element("div").classes("nc-tiles nc-tiles-of-three"):
            self._tiles = {key: draw_tile(view.say(f"home.{key}"), "") for key in _TILES}
        self._note = ui.label().classes("nc-soft nc-small")

    def write(self, state: _BotState) -> None:
        """Write the present figures into the tiles, and the cost into the note."""
        sums, first = state.today.sums, state.today.first_words
        figures = {
            "messages": f"{sums.messages:,}",
            "sent": f"{sums.sent:,}",
            "turns": f"{sums.turns:,}",
            "cost": f"{sums.cost:,.2f}",
            "first_words": f"{first.p50:.1f} / {first.p95:.1f} s" if first.number else "–",
            "not_delivered": _many(state.undelivered),
        }
        for key, tile in self._tiles.items():
            tile.text = figures[key]
        cost = f"{sums.published_cost:,.2f}"
        self._note.text = self._view.say("statistics.note_published", cost=cost)
        self._note.set_visibility(bool(sums.published_cost))


def _many(number: int) -> str:
    return f"{number:,}" if number < _MANY else f"{_MANY:,}+"


def _draw_wrong(view: View, state: _BotState) -> None:
    heading(view.say("home.wrong"))
    with ui.element("div").classes("nc-list") as found:
        if state.undelivered:
            _draw_problem(
                view,
                view.say("home.undelivered", count=_many(state.undelivered)),
                view.say("home.undelivered_hint"),
                "undelivered",
            )
        _draw_model(view, state)
        for finding in state.problems:
            said = view.say("home.finding", area=finding.area, seen=finding.seen)
            _draw_problem(view, said, finding.remedy, _PAGES.get(finding.area, "logs"))
        for process in state.processes:
            if not process.reachable:
                said = view.say("home.process_away", node=process.node)
                _draw_problem(view, said, process.problem, "processes")
            elif process.problem and not process.here:
                said = view.say("home.process_not_ready", node=process.node)
                _draw_problem(view, said, process.problem, "processes")
        for server in state.mcp:
            said = view.say("home.mcp_broken", name=server.name)
            _draw_problem(view, said, server.reason, "mcp")
        for platform in state.platforms:
            if platform.state is PlatformState.FAILED:
                said = view.say("home.platform_failed", name=platform.title)
                _draw_problem(view, said, platform.problem, "platforms")
        for account in state.accounts:
            status = account.status
            if status.state in _OFF:
                name = status.account or status.key
                said = view.say("home.account_off", name=name, platform=account.platform)
                hint = status.last_error or view.say("home.account_hint")
                _draw_problem(view, said, hint, "platforms")
        for plugin in state.plugins.plugins:
            if plugin.state == "broken":
                said = view.say("home.plugin_broken", name=plugin.name or plugin.item)
                hint = "\n".join(str(each) for each in plugin.problems)
                _draw_problem(view, said, hint, "plugins")
        if not found.default_slot.children:
            ui.label(view.say("home.nothing_wrong")).classes("nc-good")


def _draw_model(view: View, shown: _BotState) -> None:
    """Say what is wrong with the model: it failed in the newest turn, or the embedded model could
    not be loaded, is being downloaded, or still reads its instructions."""
    turn, state = shown.newest_turn, shown.embedded
    if turn is not None and turn.stop.startswith(_MODEL_FAILED):
        said = view.say("home.model_failed", model=turn.model or view.say("home.model"))
        hint = view.say("home.model_failed_hint", time=local_time(turn.ended))
        _draw_problem(view, said, hint, f"turns/{turn.turn_id}")
    if state is None:
        return
    if state.phase is EmbeddedPhase.FAILED:
        _draw_problem(view, view.say("home.no_model"), state.reason, "models")
    if state.phase is EmbeddedPhase.DOWNLOADING:
        said = view.say("home.model_downloading", percent=state.done)
        _draw_problem(view, said, view.say("home.model_downloading_hint"), "models")
    if state.phase is EmbeddedPhase.READING:
        said = view.say("home.model_reading", percent=state.done)
        _draw_problem(view, said, view.say("home.model_reading_hint"), "models")


def _draw_problem(view: View, said: str, hint: str, page: str) -> None:
    with ui.element("article").classes("nc-card"), ui.element("div").classes("nc-row"):
        ui.icon("error_outline").classes("nc-bad")
        with ui.element("div").classes("nc-grow"):
            ui.label(said)
            ui.label(hint).classes("nc-soft nc-small nc-lines")
        _draw_open(view, f"{ROOT}/{page}", said)


def _draw_open(view: View, address: str, about: str) -> None:
    link = ui.link(view.say("home.open"), link_to(address))
    link.props["aria-label"] = f"{view.say('home.open')}: {about}"


def _draw_steps(view: View, state: _BotState) -> None:
    steps = (
        ("talk", "/ui/", state.today.ever.messages > 0),
        ("model", f"{ROOT}/models", any(not each.embedded for each in state.models)),
        ("platform", f"{ROOT}/platforms", _has_platform(state)),
        ("people", f"{ROOT}/account", state.has_password),
    )
    if all(done for _, _, done in steps):
        return
    heading(view.say("home.steps"))
    with ui.element("ol").classes("nc-list nc-home-steps"):
        for name, address, done in steps:
            title = view.say(f"home.step_{name}")
            with ui.element("li").classes("nc-card"), ui.element("div").classes("nc-row"):
                ui.icon("check_circle" if done else "radio_button_unchecked").classes(
                    "nc-good" if done else "nc-soft"
                )
                with ui.element("div").classes("nc-grow"):
                    ui.label(title)
                    if not done:
                        hint = view.say(f"home.step_{name}_hint")
                        ui.label(hint).classes("nc-soft nc-small")
                if done:
                    badge(view.say("home.step_done"), "good")
                _draw_open(view, address, title)


def _has_platform(state: _BotState) -> bool:
    return any(
        each.platform != _WEB and each.status.state is AccountState.ONLINE
        for each in state.accounts
    )


def _draw_running(view: View, state: _BotState) -> None:
    heading(view.say("home.running"))
    default = next((each for each in state.models if each.group == "default"), None)
    failed = state.embedded is not None and state.embedded.phase is EmbeddedPhase.FAILED
    if default is None or failed:
        model = view.say("home.none")
    elif default.embedded:
        model = view.say("home.embedded")
    else:
        model = str(default.fields.get("model", ""))
    on = [each.title for each in state.platforms if each.state is PlatformState.RUNNING]
    loaded = sum(each.state == "loaded" for each in state.plugins.plugins)
    with ui.element("div").classes("nc-tiles nc-tiles-of-three"):
        for key, value in (
            ("model", model),
            ("platforms", ", ".join(on) or view.say("home.none")),
            ("loaded", view.say("home.loaded_count", count=loaded)),
        ):
            with ui.element("div").classes("nc-card"):
                ui.label(view.say(f"home.{key}")).classes("nc-soft nc-small")
                ui.label(value).classes("nc-tile-text")
    if state.processes:
        for role in ("gateway", "worker"):
            names = [each.node for each in state.processes if each.role == role]
            told = view.say(f"home.{role}s", names=", ".join(names) or view.say("home.none"))
            ui.label(told).classes("nc-soft nc-small")


async def _draw_health(view: View) -> None:
    area, actor = view.operator.health, view.actor
    heading(view.say("home.health"))

    @ui.refreshable
    async def findings() -> None:
        report = await area.report(actor)
        if not report.at:
            ui.label(view.say("home.unchecked")).classes("nc-soft")
            return
        bad = [each for each in report.findings if each.ok is False]
        if not bad:
            ui.label(view.say("home.all_well")).classes("nc-good")
        with ui.element("div").classes("nc-list"):
            for each in bad:
                _draw_finding(view, each)
            with ui.expansion(view.say("home.checked", time=local_time(report.at))):
                for each in report.findings:
                    if each.ok is not False:
                        _draw_finding(view, each)

    def check() -> None:
        with progress:
            start_job(
                view, area.check, {}, done=view.say("home.check_done"), on_end=findings.refresh
            )

    await findings()
    progress = ui.element("div").classes("nc-list")
    if view.may(AccessRole.OPERATOR):
        ui.button(view.say("home.check"), on_click=check, icon="troubleshoot").props(
            "outline no-caps"
        ).classes("nc-check")


def _draw_finding(view: View, finding: Finding) -> None:
    kind = {True: "good", False: "bad", None: ""}[finding.ok]
    with ui.element("article").classes("nc-card"), ui.element("div").classes("nc-row"):
        badge(finding.area, kind)
        with ui.element("div").classes("nc-grow"):
            ui.label(finding.seen)
            if finding.ok is False and finding.remedy:
                ui.label(f"{view.say('home.remedy')}: {finding.remedy}").classes("nc-soft nc-lines")
