"""Counts the calls of plugins' tools and the errors of plugins, since the bot's start."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from nekro_core.tools.tool import Tool

_MOST_CHARS = 2000
"""Maximum number of characters of an error that are stored."""
_MOST_TOOLS = 5000
"""Maximum number of tools that are counted, because a plugin may make new tools again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFault:
    """An error of a plugin. ``what`` names the tool or hook, ``where`` is ``file:line`` of the
    plugin's code (empty if not known), ``at`` the time in seconds since 1970."""

    what: str
    text: str
    where: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The counters of one tool. ``seconds`` is the sum of the durations of all its calls."""

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0
    last_error: PluginFault | None = None


@dataclass(slots=True)
class CallNote:
    """The outcome of one call: ``text`` is the reason why it failed, empty if it did not fail, and
    ``error`` the exception that the tool raised, if any."""

    text: str = ""
    error: BaseException | None = None


@dataclass(slots=True)
class PluginUses:
    """Counts the calls of tools and the errors of plugins in one bot. ``clock`` returns seconds for
    durations, ``wall`` seconds since 1970."""

    clock: Callable[[], float]
    wall: Callable[[], float]
    _tools: dict[tuple[str, str], ToolUse] = field(default_factory=dict)
    _faults: dict[str, tuple[int, PluginFault]] = field(default_factory=dict)

    @contextmanager
    def call(self, tool: Tool) -> Iterator[CallNote]:
        """Count a call of a tool, which runs in the block. If the call fails, put the reason into
        the yielded note. A call that is cancelled is not counted."""
        note, began = CallNote(), self.clock()
        yield note
        key = (tool.owner, tool.name)
        if key not in self._tools and len(self._tools) >= _MOST_TOOLS:
            return
        use = self._tools.get(key, ToolUse())
        use = replace(use, calls=use.calls + 1, seconds=use.seconds + self.clock() - began)
        if note.text or note.error is not None:
            own = tool.own_files or str(Path(tool.where.rpartition(":")[0]).parent)
            fault = self._fault(tool.name, note.text, note.error, own, tool.where)
            use = replace(use, errors=use.errors + 1, last_error=fault)
            self._keep(tool.owner, fault)
        self._tools[key] = use

    def fail(self, plugin: str, what: str, error: BaseException, own: str) -> None:
        """Count an error of a hook or another function of a plugin. ``own`` is the folder or file
        of the plugin's code."""
        self._keep(plugin, self._fault(what, "", error, own, ""))

    def tools_of(self, plugin: str) -> Mapping[str, ToolUse]:
        """Return the counters of those tools of a plugin that were called, by the tools' names."""
        return {name: use for (owner, name), use in self._tools.items() if owner == plugin}

    def errors_of(self, plugin: str) -> tuple[int, PluginFault | None]:
        """Return the number of errors of a plugin, in tools and hooks, and the last error."""
        return self._faults.get(plugin, (0, None))

    def _keep(self, plugin: str, fault: PluginFault) -> None:
        count, _ = self.errors_of(plugin)
        self._faults[plugin] = (count + 1, fault)

    def _fault(
        self, what: str, text: str, error: BaseException | None, own: str, otherwise: str
    ) -> PluginFault:
        if error is not None:
            text = f"{type(error).__name__}: {_text(error)}"
        where = own_line(error, own) if error is not None else ""
        return PluginFault(
            what=what, text=text[:_MOST_CHARS], where=where or otherwise, at=self.wall()
        )


def own_line(error: BaseException, own: str) -> str:
    """Return the innermost ``file:line`` of an error's traceback that is in the folder or file
    ``own``; empty if there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [each for each in frames if own and each.filename.startswith(own)]
    return f"{inside[-1].filename}:{inside[-1].lineno}" if inside else ""


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the ``__str__`` of a plugin's own class
        return ""
