"""Defines what an operator sees of plugins. Addresses of webhooks are left out, because they
contain secrets."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from nekro_core.agent.turn.tool_trials import ToolTrial
from nekro_core.plugins.authoring.tool_uses import PluginFault
from nekro_core.plugins.authoring.web import PAGES
from nekro_core.plugins.installation.manager import ManagedPlugin
from nekro_core.plugins.installation.proposal import NeededPackage, PluginProposal
from nekro_core.tools.content import AudioContent, ImageContent, TextContent
from nekro_core.tools.problem import PluginProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionView:
    """An old version of a plugin. ``installed`` is in seconds since 1970."""

    number: int
    version: str
    commit: str
    installed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginView:
    """One plugin.

    Attributes:
        item: The place where it was found: ``builtin/chat``, ``local/weather``.
        key: ``author.module_name``; empty if not known.
        name: The name that people see.
        version: Its version.
        author: The author as the plugin writes it.
        description: What it does.
        state: ``loaded``, ``disabled`` or ``broken``.
        builtin: Whether it came with the bot.
        source: Where it was installed from; empty if it was put into the folder by hand.
        commit: Git's id of the installed commit.
        installed: When it was installed, in seconds since 1970; 0 if not known.
        changed: The files that somebody changed since the installation, one line each. Empty in a
            list of plugins.
        tools: The names of its tools.
        problems: What is wrong with it.
        versions: The old versions that can be restored.
        has_form: Whether it is loaded and has a configuration.
        page: The address of its own web page; empty if it has none. Viewers may not open it.
        errors: How many errors it had since the bot's start.
        last_error: The last of these errors.
    """

    item: str
    key: str
    name: str
    version: str
    author: str
    description: str
    state: str
    builtin: bool
    source: str
    commit: str
    installed: float
    changed: tuple[str, ...]
    tools: tuple[str, ...]
    problems: tuple[PluginProblem, ...]
    versions: tuple[VersionView, ...]
    has_form: bool
    page: str
    errors: int
    last_error: PluginFault | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsView:
    """All plugins. ``at_next_start`` names the packages whose newer version is used only after the
    next start of the bot."""

    plugins: tuple[PluginView, ...]
    at_next_start: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbilityView:
    """What a plugin's code may do. ``where`` is the ``file:line`` of the first use. ``new`` is true
    if the proposal is an update and the installed version cannot do it. ``parts`` say the same as
    ``text`` for programs: each is a stable word, and details such as the name of a module."""

    text: str
    where: str
    new: bool = False
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposalView:
    """What a plugin contains that could be installed, or an update of a plugin.

    Attributes:
        item: The name that the plugin would have: ``local/NAME``.
        source: The address from which it was fetched, without a password.
        commit: Git's id of the commit.
        digest: A hash of the files. If it is passed to `Plugins.install`, other files are refused.
        key: ``author.module_name``; empty if it cannot be known without running the code.
        name: The name that people see.
        version: Its version.
        author: Its author.
        description: What it does.
        tools: The names of its tools for the AI.
        commands: The commands for people.
        abilities: What its code may do: hooks, network, files, programs. This is read from the
            source, and the code may do more.
        packages: The packages that it needs.
        notes: Lines about packages.
        problems: What is wrong with it. If one of the problems is an error, the plugin cannot be
            loaded.
        unreadable: The files that cannot be read.
        files: The number of its files.
        installed: The version that is installed now; empty for a new plugin.
        changes: For an update, one line for each different file.
        lost: For an update, the files that somebody changed on this machine and that the update
            would overwrite.
        loads: Whether it could be loaded in a confined process; None if that was not tried.
        tried: What it tried to do in the confined process while it was loaded: programs that it
            started, and files that it changed outside of the process's own folder.
        report: What a model reads about it and how many tokens that takes, or why it could not be
            loaded.
    """

    item: str
    source: str
    commit: str
    digest: str
    key: str
    name: str
    version: str
    author: str
    description: str
    tools: tuple[str, ...]
    commands: tuple[str, ...]
    abilities: tuple[AbilityView, ...]
    packages: tuple[NeededPackage, ...]
    notes: tuple[str, ...]
    problems: tuple[PluginProblem, ...]
    unreadable: tuple[str, ...]
    files: int
    installed: str
    changes: tuple[str, ...]
    lost: tuple[str, ...]
    loads: bool | None
    tried: tuple[AbilityView, ...]
    report: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUseView:
    """How a tool was used since the bot's start. ``seconds`` is the sum of the durations of all
    its calls."""

    name: str
    calls: int
    errors: int
    seconds: float
    last_error: PluginFault | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginUseView:
    """Use and cost of a plugin.

    Attributes:
        plugin: The plugin's key.
        tools: The tools that were called since the bot's start.
        errors: How many errors it had since the bot's start, in tools and hooks.
        last_error: The last of these errors.
        model_requests: How often it asked a model since the given time.
        prompt_tokens: The tokens of these requests.
        completion_tokens: The tokens of the replies.
        cost: In the operator's currency; the part ``published_cost`` is in US dollars.
        published_cost: The part of ``cost`` that is estimated from published prices.
        unpriced: Requests whose price is not known. They count as 0 in ``cost``.
    """

    plugin: str
    tools: tuple[ToolUseView, ...]
    errors: int
    last_error: PluginFault | None
    model_requests: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    published_cost: float = 0.0
    unpriced: int = 0


def joined_uses(uses: Sequence[PluginUseView]) -> PluginUseView:
    """Add up the use of a plugin in several processes. Requests to models are not added: they are
    counted in the database, so each of the views has those of all processes."""
    tools: dict[str, ToolUseView] = {}
    for each in (tool for use in uses for tool in use.tools):
        known = tools.get(each.name)
        if known is not None:
            each = ToolUseView(  # noqa: PLW2901
                name=each.name,
                calls=known.calls + each.calls,
                errors=known.errors + each.errors,
                seconds=known.seconds + each.seconds,
                last_error=_newer(known.last_error, each.last_error),
            )
        tools[each.name] = each
    return replace(
        uses[0],
        tools=tuple(tools.values()),
        errors=sum(each.errors for each in uses),
        last_error=reduce(_newer, (each.last_error for each in uses)),
    )


def _newer(first: PluginFault | None, second: PluginFault | None) -> PluginFault | None:
    if first is None or second is None:
        return first or second
    return first if first.at >= second.at else second


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialView:
    """The outcome of trying a tool.

    Attributes:
        text: The texts of its answer.
        media: Its pictures and sounds as ``data:`` or ``http`` addresses.
        failed: Whether the call failed.
        seconds: How long it took.
        fault: Why it failed, with the place in the code; None if it did not fail.
    """

    text: str
    media: tuple[str, ...]
    failed: bool
    seconds: float
    fault: PluginFault | None


def plugin_view(
    found: ManagedPlugin, *, has_form: bool, errors: tuple[int, PluginFault | None]
) -> PluginView:
    """Describe one plugin. ``errors`` has the number of its errors, and the last error."""
    info = found.info
    return PluginView(
        item=info.item,
        key=info.key,
        name=info.name,
        version=info.version,
        author=info.author,
        description=info.description,
        state=info.state.value,
        builtin=found.builtin,
        source=found.source,
        commit=found.commit,
        installed=found.installed,
        changed=found.changed,
        tools=tuple(tool.name for tool in info.tools),
        problems=info.problems,
        versions=tuple(
            VersionView(
                number=each.number,
                version=each.record.version,
                commit=each.record.commit,
                installed=each.record.at,
            )
            for each in found.versions
        ),
        has_form=has_form,
        page=next((each for each in info.addresses if each.startswith(f"{PAGES}/")), ""),
        errors=errors[0],
        last_error=errors[1],
    )


def proposal_view(found: PluginProposal) -> ProposalView:
    """Describe what would be installed."""
    looked, check = found.looked, found.check
    new = {each.text for each in found.new_abilities}
    return ProposalView(
        item=found.item,
        source=str(found.source),
        commit=found.commit,
        digest=found.digest,
        key=looked.key,
        name=looked.name,
        version=looked.version,
        author=looked.author,
        description=looked.description,
        tools=looked.tools,
        commands=(*(f"/{name}" for name in looked.commands), *looked.spoken),
        abilities=tuple(
            AbilityView(
                text=each.text,
                where=each.where,
                new=each.text in new,
                parts=((each.code, each.detail),),
            )
            for each in looked.abilities
        ),
        packages=found.packages,
        notes=found.notes,
        problems=found.problems,
        unreadable=looked.unreadable,
        files=found.files,
        installed=found.installed,
        changes=found.changes,
        lost=found.lost,
        loads=check.loaded if check is not None else None,
        tried=tuple(
            AbilityView(
                text=each.text,
                where=each.where,
                parts=tuple((f"tried_{deed}", what) for deed, what in each.deeds),
            )
            for each in (check.attempts if check is not None else ())
        ),
        report=check.report if check is not None else "",
    )


def trial_view(trial: ToolTrial) -> TrialView:
    """Describe the outcome of trying a tool."""
    texts: list[str] = []
    media: list[str] = []
    for each in trial.answer.content:
        match each:
            case TextContent(text):
                texts.append(text)
            case ImageContent():
                media.append(each.url or _data_url(each.data, each.mime))
            case AudioContent():
                media.append(_data_url(each.data, f"audio/{each.format}"))
    return TrialView(
        text="\n".join(texts),
        media=tuple(media),
        failed=trial.answer.is_error,
        seconds=trial.seconds,
        fault=trial.fault,
    )


def _data_url(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{b64encode(data).decode()}"


def state_values(found: PluginView) -> Mapping[str, Any]:
    """Return what the audit log stores of a plugin's state."""
    return {"state": found.state, "version": found.version, "commit": found.commit}
