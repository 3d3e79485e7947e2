"""Formats the findings about a plugin as lines for the terminal."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from nekro_core.plugins.host.links import LOCAL_FOLDER
from nekro_core.plugins.host.switches import ListedPlugin
from nekro_core.plugins.installation.bot_follower import InstallRefused
from nekro_core.plugins.installation.inspection import PluginInspection
from nekro_core.plugins.installation.proposal import PluginProposal
from nekro_core.tools.problem import ProblemSeverity

RIGHTS = (
    "Whatever stands here: a plugin runs in the bot's process, with all that the bot's user may do."
)


def printable(text: str) -> str:
    """Escape control characters and characters that change the direction of text. With them, a
    plugin's name could erase the lines that say what the plugin does."""
    return "".join(
        f"\\x{ord(each):02x}" if unicodedata.category(each)[0] == "C" else each for each in text
    )


def abilities_text(looked: PluginInspection) -> Iterator[str]:
    """Yield lines with a plugin's tools, commands and abilities, each ability with its place in the
    code."""
    if looked.tools:
        yield f"  tools for the AI: {', '.join(looked.tools)}"
    commands = [*(f"/{name}" for name in looked.commands), *looked.spoken]
    if commands:
        yield f"  commands for people: {', '.join(commands)}"
    for ability in looked.abilities:
        yield f"  {ability.text}, at {ability.where}"
    for text in looked.unreadable:
        yield f"  cannot be read: {text}"


def proposal_lines(found: PluginProposal) -> Iterator[str]:
    """Yield the lines that say what a plugin is and what it may do. Raises `InstallRefused` for a
    plugin that the bot would not load."""
    looked, name = found.looked, found.item.partition("/")[2]
    commit = f", commit {found.commit[:12]}" if found.commit else ""
    yield f"{looked.key or name} {looked.version}: {looked.name}".rstrip(": ")
    yield f"  from {found.source}{commit}; {found.files} files"
    yield from abilities_text(looked)
    errors = [each for each in found.problems if each.severity is ProblemSeverity.ERROR]
    if errors:
        told = "\n".join(map(str, errors))
        raise InstallRefused(f"a bot could not load it:\n{told}")
    for each in found.problems:
        yield f"  {each.severity.value}: {each}"
    if named := [each for each in found.packages if each.named]:
        wanted = ", ".join(each.requirement for each in named)
        here = " (all there)" if all(each.there for each in named) else ""
        yield f"  needs packages: {wanted}{here}"
    for line in found.notes:
        yield f"  {line}"
    yield RIGHTS
    if found.changes:
        yield f"  against {found.installed}: {', '.join(found.changes[:20])}"
    for ability in found.new_abilities:
        yield f"  NEW: {ability.text}, at {ability.where}"


def state_text(plugin: ListedPlugin) -> Iterator[str]:
    """Yield the line of a plugin in the list of plugins, and below it one line for each address and
    problem."""
    tools = ", ".join(plugin.tools)
    # Show the author's name if the key does not contain it. This is so if the name has characters
    # that a key cannot have.
    unnamed = plugin.author and not plugin.key.startswith(f"{plugin.author}.")
    author = f" by {printable(plugin.author)}" if unnamed else ""
    yield f"{plugin.state:9} {plugin.key or plugin.item} {plugin.version}{author}  {tools}"
    for line in (*plugin.addresses, *plugin.problems):
        yield f"{'':10}{line}"


def unseen_text(item: str, looked: PluginInspection) -> Iterator[str]:
    """Yield the lines of a plugin that was copied into the bot's folder, and that no bot has seen
    yet. They are read from its files."""
    tools = ", ".join(looked.tools)
    yield printable(f"{'new':9} {looked.key or item} {looked.version}  {tools}")
    yield f"{'':10}no bot has run since it was put here; nekro plugin install adds its packages"
    for text in looked.unreadable:
        yield printable(f"{'':10}cannot be read: {text}")


def with_author_paths(text: str, data_dir: Path, plugin: Path) -> str:
    """Replace the path of the link in the data folder, which the bot reports, by the path of the
    plugin's files, which the author knows."""
    return re.sub(rf"{re.escape(str(data_dir / LOCAL_FOLDER))}/[^/:\s]+", str(plugin), text)
