"""Draws the page of the log of the running bot."""

from collections import deque
from collections.abc import Collection, Sequence
from itertools import takewhile

import anyio
from nicegui import ui

from nekro_core.console.view import View
from nekro_core.console.visible_text import visible_text
from nekro_core.console.widgets import local_time
from nekro_core.operator.errors import OperatorError
from nekro_core.operator.roles import AccessRole
from nekro_core.system.errors import NekroError
from nekro_core.system.logs.line import LogFilter, LogLine
from nekro_core.system.logs.ring import MissedLines

DOWNLOAD = "../../api/v1/logs"
"""The address of the log files, relative to the page. It does not begin with a slash, because
NiceGUI would put ``/ui`` in front of it."""
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "SUCCESS": 25, "WARNING": 30, "ERROR": 40}
_FIRST_LINES = 200
_MOST_LINES = 1000
"""Maximum number of lines on the page. With many more, browsers become slow."""
_READ_AGAIN_S = 3.0
"""Seconds between two readings of the lines of another process of a cluster."""
_GATHER_S = 0.1
"""Seconds for which new lines are collected before they are sent to the browser together."""


_LineMark = tuple[int, float]
"""The number and the time of a line. When a process starts again, its numbers begin again. So the
number alone does not tell whether a line was read before."""


def _mark(line: LogLine) -> _LineMark:
    return line.number, line.time


def newer_lines(found: Sequence[LogLine], read_before: Collection[_LineMark]) -> list[LogLine]:
    """Return the lines that are new since the last reading, oldest first.

    Args:
        found: The newest lines, newest first.
        read_before: The number and the time of each line of the last reading.
    """
    newer = [*takewhile(lambda line: _mark(line) not in read_before, found)]
    return newer[::-1]


class _LiveLog:
    """The lines on one opened page."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._wanted = LogFilter()
        self._restart = anyio.CancelScope()
        self._new: deque[LogLine | MissedLines] = deque(maxlen=_MOST_LINES)
        self._read_before: frozenset[_LineMark] = frozenset()
        self._fault = ""
        self.shown = _FIRST_LINES
        self.paused = False
        self.process = ""
        """The name of another process whose lines are shown; empty for this process."""
        self.lines = ui.log(max_lines=_MOST_LINES).classes("nc-log")
        self.lines.props["aria-label"] = view.say("logs.lines")
        self.lines.props('role="log" tabindex="0"')
        self.waiting = ui.label().classes("nc-soft nc-small").props('role="status"')

    def search(self, wanted: LogFilter, lines: int = _FIRST_LINES) -> None:
        """Show the lines that match the filter ``wanted``."""
        self._wanted, self.shown = wanted, lines
        self._restart.cancel()

    def older(self) -> None:
        """Also show older lines."""
        self.search(self._wanted, min(self.shown + _FIRST_LINES, _MOST_LINES))

    def pause(self, paused: bool) -> None:
        """If ``paused``, collect new lines without showing them. Otherwise show them."""
        self.paused = paused
        self.show_new()

    async def follow(self) -> None:
        """Draw the newest lines, then collect new lines until the page closes. After each call of
        `search`, begin again."""
        area, actor = self._view.operator.logs, self._view.actor
        while True:
            with anyio.CancelScope() as self._restart:
                if self.process:
                    await self._follow_elsewhere()
                # Begin to follow before the older lines are read, so that no line is lost in
                # between.
                async with area.follow(actor, self._wanted) as lines:
                    await self._begin()
                    async for line in lines:
                        if isinstance(line, MissedLines) or _mark(line) not in self._read_before:
                            self._new.append(line)

    async def _follow_elsewhere(self) -> None:
        """Read the lines of another process again and again. `show` and `search` end this."""
        await self._begin()
        while True:
            await anyio.sleep(_READ_AGAIN_S)
            if not self.paused and (found := await self._read()):
                self._new.extend(newer_lines(found, self._read_before))
                self._read_before = frozenset(map(_mark, found))

    def show(self, process: str) -> None:
        """Show the lines of a process; of this one if ``process`` is empty."""
        self.process = process
        self._restart.cancel()

    async def show_gathered(self) -> None:
        """Show the collected lines until the page closes."""
        while True:
            await anyio.sleep(_GATHER_S)
            self.show_new()

    def show_new(self) -> None:
        """Show the lines that came since the last call, if the page is not paused."""
        count = len(self._new)
        self.waiting.text = self._view.say("logs.held", count=count) if self.paused else ""
        if not self.paused:
            lines = [*self._new]
            self._new.clear()
            self._draw(lines)

    async def _read(self) -> list[LogLine]:
        """Read the newest lines, newest first. If the process does not answer, there are none, and
        ``_fault`` says why."""
        wanted = self._wanted
        try:
            found = await self._view.operator.logs.newest(
                self._view.actor,
                severity=wanted.severity,
                chat_key=wanted.chat_key,
                turn_id=wanted.turn_id,
                plugin=wanted.plugin,
                text=wanted.text,
                limit=self.shown,
                process=self.process,
            )
        except NekroError as error:
            if not self._fault:
                self.lines.push(str(error), classes="nc-bad")
            self._fault = str(error)
            return []
        self._fault = ""
        return found

    async def _begin(self) -> None:
        found = await self._read()
        self.lines.clear()
        if self._fault:
            self.lines.push(self._fault, classes="nc-bad")
        self._new.clear()
        self._read_before = frozenset(map(_mark, found))
        self._draw([*reversed(found)])
        if not found and not self._fault:
            self.lines.push(self._view.say("logs.nothing"), classes="nc-soft")

    def _draw(self, lines: Sequence[LogLine | MissedLines]) -> None:
        for line in lines:
            if isinstance(line, MissedLines):
                self.lines.push(self._view.say("logs.missed", count=line.count), classes="nc-bad")
            else:
                self.lines.push(_line_of(line), classes=f"nc-log-{_kind(line)}")


async def logs_page(view: View) -> None:
    """Draw the page."""
    ui.label(view.say("logs.lead")).classes("nc-lead")
    filters = ui.element("div").classes("nc-filters")
    tools = ui.element("div").classes("nc-row")
    live = _LiveLog(view)
    with filters:
        await _draw_processes(view, live)
        _draw_filters(view, live)
    with tools:
        await _draw_tools(view, live)
    view.while_open(live.follow)
    view.while_open(live.show_gathered)


async def _draw_processes(view: View, live: _LiveLog) -> None:
    """In a cluster, let the person choose the process whose lines are shown."""
    area = view.operator.cluster
    if not area.several:
        return
    names = {"" if each.here else each.node: each.node for each in await area.processes(view.actor)}
    chosen = ui.select(
        names,
        value="",
        label=view.say("logs.process"),
        on_change=lambda event: live.show(event.value or ""),
    )
    told = view.say("logs.elsewhere", seconds=f"{_READ_AGAIN_S:.0f}", node=area.node)
    chosen.props("outlined dense").props["title"] = told
    ui.label(told).classes("nc-soft nc-small").bind_visibility_from(chosen, "value", bool)


def _draw_filters(view: View, live: _LiveLog) -> None:
    levels = {number: name for name, number in LEVELS.items()}
    level = ui.select(
        {0: view.say("logs.all_levels")} | levels, value=0, label=view.say("logs.from_level")
    )
    fields = {
        name: ui.input(view.say(f"logs.{name}")).props("outlined dense clearable debounce=300")
        for name in ("text", "chat", "turn", "plugin")
    }
    level.props("outlined dense")

    def search() -> None:
        written = {name: (each.value or "").strip() for name, each in fields.items()}
        turn = written["turn"]
        if turn and not (turn.isascii() and turn.isdecimal()):
            view.show_error(OperatorError(view.say("logs.bad_turn", text=turn[:40])))
            return
        live.search(
            LogFilter(
                severity=level.value or 0,
                chat_key=written["chat"],
                turn_id=int(turn[:18] or 0),
                plugin=written["plugin"],
                text=written["text"][:200],
            )
        )

    level.on_value_change(search)
    for each in fields.values():
        each.on_value_change(search)


async def _draw_tools(view: View, live: _LiveLog) -> None:
    def pause() -> None:
        live.pause(not live.paused)
        button.text = view.say("logs.go_on" if live.paused else "logs.pause")
        button.props(f"icon={'play_arrow' if live.paused else 'pause'}")

    button = ui.button(view.say("logs.pause"), icon="pause", on_click=pause)
    button.props("outline no-caps")
    ui.button(view.say("frame.older"), on_click=live.older).props("flat no-caps")
    link = ui.link(view.say("logs.download"), DOWNLOAD).classes("nc-download")
    link.props("download")
    ui.space()
    area, actor = view.operator.logs, view.actor
    present = await area.level(actor)
    if not view.may(AccessRole.OPERATOR):
        ui.label(view.say("logs.level_is", level=present)).classes("nc-soft")
        return

    async def change() -> None:
        if chosen.value != await area.level(actor):
            changing = area.set_level.invoke(actor, {"level": str(chosen.value)})
            await view.perform(changing, view.say("logs.level_set"), refresh=read)

    async def read() -> None:
        chosen.value = await area.level(actor)

    names = [*LEVELS, *([] if present in LEVELS else [present])]
    chosen = ui.select(names, value=present, label=view.say("logs.level"), on_change=change)
    chosen.props("outlined dense").classes("nc-people-role")


def _line_of(line: LogLine) -> str:
    about = " ".join(
        each
        for each in (line.plugin, line.chat_key, f"#{line.turn_id}" if line.turn_id else "")
        if each
    )
    source = f"{line.logger} ({about})" if about else line.logger
    text = f"{local_time(line.time)} {line.level} {source}: {line.text}"
    return visible_text(f"{text}\n{line.traceback}" if line.traceback else text)


def _kind(line: LogLine) -> str:
    if line.severity >= LEVELS["ERROR"]:
        return "bad"
    return "warn" if line.severity >= LEVELS["WARNING"] else "plain"
