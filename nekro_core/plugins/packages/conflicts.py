"""Explains why packages cannot be installed together, and which plugins need them."""

import re
from collections.abc import Iterator, Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from nekro_core.plugins.packages.pip import PipFailed
from nekro_core.plugins.packages.requirements import PluginRequirement

_CAUSE = re.compile(r"The conflict is caused by:\n(?P<lines>(?:\s{2,}.*\n?)+)")
_NONE = re.compile(r"No matching distribution found for (?P<wanted>[^\n(]+)")
_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Temporary failure in name resolution|ProxyError"
    r"|ConnectTimeout|ReadTimeout|Connection refused|Network is unreachable|SSLError|Max retries"
    r"|CERTIFICATE_VERIFY_FAILED|Could not fetch URL"
)
_LONGEST = 300
"""Maximum number of characters of pip's output in an explanation."""


def conflicts_with_bot(needs: Sequence[PluginRequirement], own: Mapping[str, str]) -> str:
    """Describe the requirements that the bot's own version of a package does not meet; empty if all
    are met."""
    clashes = [
        f"{need}, and the bot itself has {need.requirement.name} {own[name]}"
        for need in needs
        if (name := canonicalize_name(need.requirement.name)) in own
        and not need.requirement.specifier.contains(own[name], prereleases=True)
    ]
    remedy = "the bot's packages stay as they are: ask the plugin's author for a version that fits"
    return _told(needs, "; ".join(clashes), remedy) if clashes else ""


def explain_failure(
    error: PipFailed | TimeoutError, needs: Sequence[PluginRequirement], *, builds: bool
) -> str:
    """Turn pip's error into three lines: which plugins wanted packages, why these were not
    installed, and what to do."""
    return _told(needs, *_reason(error, needs, builds=builds))


def _told(needs: Sequence[PluginRequirement], reason: str, remedy: str) -> str:
    who = ", ".join(dict.fromkeys(need.plugin for need in needs))
    return f"the packages for {who} cannot be installed:\n{reason}\n{remedy}"


def _reason(
    error: PipFailed | TimeoutError, needs: Sequence[PluginRequirement], *, builds: bool
) -> tuple[str, str]:
    """Return why pip failed, and what to do."""
    if isinstance(error, TimeoutError):
        return str(error), "set NEKRO_PLUGIN__PACKAGES_S if the network is slow, and try again"
    if "No module named pip" in error.said:
        return "this Python has no pip to get packages with", "run python -m ensurepip once"
    if cause := _CAUSE.search(error.said):
        remedy = "remove one of the plugins, or ask its author for versions that fit the others"
        return "; ".join([*_sides(cause["lines"].splitlines(), needs)]), remedy
    if found := _NETWORK.search(error.said):
        line = next(line for line in error.said.splitlines() if found[0] in line)
        return _short(line), (
            "the package index cannot be reached: set HTTPS_PROXY, or another index with "
            "NEKRO_PLUGIN__PACKAGE_INDEX"
        )
    if missing := _NONE.search(error.said):
        wanted = missing["wanted"].strip()
        who = _who(wanted, needs) or f"{wanted} is needed"
        wheel = "" if builds else " as a wheel (building is off: NEKRO_PLUGIN__BUILD_PACKAGES)"
        remedy = "correct its name, or ask the plugin's author for a version that this Python has"
        if not builds:
            remedy += "; if you trust its authors, allow building"
        return f"{who}, and the package index has nothing that fits{wheel}", remedy
    if "No space left on device" in error.said:
        return "the disk is full", "make room for the data folder, and try again"
    told = [line for line in error.said.splitlines() if line.strip()]
    errors = [line for line in told if line.startswith("ERROR:")] or told[-1:]
    wanted = "; ".join(map(str, needs))
    return (
        _short(f"{wanted}: pip failed: {' / '.join(errors)}"),
        "try it with pip in an environment of its own; what it says there is for its authors",
    )


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _sides(lines: Sequence[str], needs: Sequence[PluginRequirement]) -> Iterator[str]:
    said = set()
    for line in map(str.strip, lines):
        wanted = line.removeprefix("The user requested ")
        if line.startswith("The user requested (constraint) "):
            text = f"the bot itself has {wanted.removeprefix('(constraint) ').replace('==', ' ')}"
        elif wanted != line:
            text = _who(wanted, needs) or f"somebody needs {wanted}"
        elif " depends on " in line:
            package, _, below = line.partition(" depends on ")
            who = _who(package.partition(" ")[0], needs, by_name=True)
            text = f"{who}, and {package} needs {below}" if who else f"{package} needs {below}"
        else:
            continue
        if text not in said:
            said.add(text)
            yield text


def _who(wanted: str, needs: Sequence[PluginRequirement], *, by_name: bool = False) -> str:
    """Return a text such as ``ann.a needs x==1`` about the plugins that directly require
    ``wanted``; empty if no plugin does."""
    try:
        asked = Requirement(wanted.strip())
    except InvalidRequirement:
        return ""
    name = canonicalize_name(asked.name)
    same = [
        need
        for need in needs
        if canonicalize_name(need.requirement.name) == name
        and (by_name or need.requirement.specifier == asked.specifier)
    ]
    return " and ".join(map(str, same))
