"""Registers commands and finds them by the names that people type."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from nekro_core.plugins.authoring.commands import Command, CommandFamily, SpokenCommand
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.commands.arguments import BadSignature, CommandSignature, signature_of
from nekro_core.plugins.host.kinds import DeclarationRefused
from nekro_core.policy.permissions import folded, is_name
from nekro_core.tools.describe import place_of

MAX_COMMANDS = 200
"""Maximum number of commands of one plugin. Only a faulty loop would register more."""
CORE = "nekro"
"""The ``owner`` and ``module`` of the bot's own commands."""
_ALIASES = 16


class RegisteredCommand(msgspec.Struct, frozen=True, eq=False):
    """A registered command. ``plugin`` is None for the bot's own commands."""

    command: Command
    signature: CommandSignature
    plugin: NekroPlugin | None = None

    @property
    def owner(self) -> str:
        """The key of the command's plugin."""
        return self.plugin.key if self.plugin else CORE

    @property
    def module(self) -> str:
        """The part of the long name before the colon."""
        return self.plugin.module_key if self.plugin else CORE

    @property
    def long_name(self) -> str:
        """The name with the module: ``module:name``. Commands of other plugins cannot have it."""
        return f"{self.module}:{self.command.name}"

    @property
    def spoken(self) -> str:
        """The name as people type it: ``group sub``."""
        return self.command.name.replace(".", " ")

    def names(self) -> set[str]:
        """Get the name and the aliases, normalized by `folded`."""
        return {folded(name) for name in (self.command.name, *self.command.aliases)}

    def setting_names(self) -> set[str]:
        """Get the names under which the settings may list the command, normalized by `folded`."""
        name = folded(self.command.name)
        return {name, f"{folded(self.module)}:{name}", f"{folded(self.owner)}:{name}"}

    def serves(self, adapter: str) -> bool:
        """Whether the command is available in chats of this adapter."""
        return self.plugin is None or adapter in (self.plugin.support_adapter or (adapter,))


class CommandRegistry:
    """Holds the registered commands. ``order`` has keys of plugins: if several plugins have a
    command of the same name, the command of the plugin that comes first in ``order`` is found."""

    def __init__(self, order: Sequence[str] = ()) -> None:
        self._order = tuple(order)
        self._entries: dict[RegisteredCommand, None] = {}
        self._by_name: dict[str, list[RegisteredCommand]] = {}
        self._by_group: dict[str, list[RegisteredCommand]] = {}
        self._spoken: list[tuple[NekroPlugin, SpokenCommand]] = []
        self._families: dict[str, list[tuple[str, CommandFamily]]] = {}

    def add_builtin(self, command: Command) -> Callable[[], None]:
        """Add one of the bot's own commands. If a plugin has a command of the same name, the bot's
        command runs. The returned function removes the command."""
        return self._add(RegisteredCommand(command, signature_of(command.handler)))

    def put(self, plugin: NekroPlugin, command: Command) -> None:
        """Add a plugin's command until the plugin is unloaded. Raises `DeclarationRefused`."""
        where = place_of(command.handler)
        for name in (command.name, *command.aliases):
            if not is_name(name):
                raise DeclarationRefused(
                    f"a command cannot be called {name!r}",
                    where=where,
                    remedy="use letters, digits, '-' and '_', 64 at most",
                )
        mine = [entry for entry in self._entries if entry.plugin is plugin]
        if len(mine) >= MAX_COMMANDS or len(command.aliases) > _ALIASES:
            raise DeclarationRefused(
                f"{command.name} is one command or alias too many",
                where=where,
                remedy=f"{MAX_COMMANDS} commands with {_ALIASES} aliases each are possible",
            )
        if any(folded(command.name) == folded(entry.command.name) for entry in mine):
            raise DeclarationRefused(
                f"the command {command.name} is there twice", where=where, remedy="rename one"
            )
        try:
            signature = signature_of(command.handler)
        except BadSignature as error:
            raise DeclarationRefused(
                f"command {command.name}: {error}",
                where=where,
                remedy="write async def f(context, name: str = Arg(...)) -> CommandResponse",
            ) from None
        drop = self._add(RegisteredCommand(command, signature, plugin))
        plugin.effects.add(f"command {command.name}", drop)

    def add_family(self, plugin: NekroPlugin, family: CommandFamily) -> None:
        """Add the description of a plugin's group until the plugin is unloaded."""
        named = self._families.setdefault(folded(family.name), [])
        named.append((plugin.key, family))
        plugin.effects.add(f"group {family.name}", partial(named.remove, (plugin.key, family)))

    def list_only(self, plugin: NekroPlugin, spoken: SpokenCommand) -> None:
        """List a command that a plugin finds in messages itself, until the plugin is unloaded."""
        if sum(owner is plugin for owner, _ in self._spoken) >= MAX_COMMANDS:
            return
        self._spoken.append((plugin, spoken))
        plugin.effects.add(f"command {spoken.usage}", partial(self._unlist, plugin, spoken))

    def spoken(self, adapter: str) -> list[tuple[NekroPlugin, SpokenCommand]]:
        """Return the commands that plugins find in messages themselves and that are available in
        chats of an adapter, each with its plugin."""
        here = [both for both in self._spoken if adapter in (both[0].support_adapter or (adapter,))]
        return sorted(here, key=lambda both: (both[0].module_name, both[1].usage))

    def _unlist(self, plugin: NekroPlugin, spoken: SpokenCommand) -> None:
        self._spoken.remove((plugin, spoken))

    def find(self, name: str, adapter: str) -> list[RegisteredCommand]:
        """Find the commands of a name in chats of an adapter. The result has several commands if
        several plugins of the same rank use the name."""
        space, colon, short = folded(name).rpartition(":")
        found = [
            entry
            for entry in self._by_name.get(short, ())
            if entry.serves(adapter)
            and (not colon or space in (folded(entry.module), folded(entry.owner)))
        ]
        if len(found) <= 1:
            return found
        best = min(map(self._rank, found))
        first = [entry for entry in found if self._rank(entry) == best]
        # If one plugin uses a name twice (for one command and as an alias of another command), the
        # first command is meant.
        return first[:1] if len({entry.owner for entry in first}) == 1 else first

    def members(self, group: str, adapter: str) -> list[RegisteredCommand]:
        """Get the commands ``group.sub`` of a group, sorted by module and name."""
        found = [each for each in self._by_group.get(folded(group), ()) if each.serves(adapter)]
        return sorted(found, key=lambda entry: (entry.module, entry.command.name))

    def family(self, name: str) -> CommandFamily | None:
        """Get the name and description of a group; None if no plugin declared it."""
        named = self._families.get(folded(name))
        return named[0][1] if named else None

    def of_plugin(self, plugin: NekroPlugin, name: str) -> RegisteredCommand | None:
        """Get a plugin's command by its name, including internal commands."""
        wanted = folded(name).rpartition(":")[2]
        for entry in self._entries:
            if entry.plugin is plugin and wanted in entry.names():
                return entry
        return None

    def listed(self, adapter: str) -> list[RegisteredCommand]:
        """List all commands that can be typed in an adapter's chats, the bot's own first."""
        shown = [each for each in self._entries if not each.command.internal]
        return sorted(
            (entry for entry in shown if entry.serves(adapter)),
            key=lambda entry: (entry.plugin is not None, entry.module, entry.command.name),
        )

    def __iter__(self) -> Iterator[RegisteredCommand]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _add(self, entry: RegisteredCommand) -> Callable[[], None]:
        self._entries[entry] = None
        indexed: list[tuple[dict[str, list[RegisteredCommand]], str]] = []
        if not entry.command.internal:
            group, dot, _ = folded(entry.command.name).rpartition(".")
            indexed = [(self._by_name, name) for name in entry.names()]
            indexed += [(self._by_group, group)] if dot else []
        for table, name in indexed:
            table.setdefault(name, []).append(entry)

        def drop() -> None:
            del self._entries[entry]
            for table, name in indexed:
                table[name].remove(entry)
                if not table[name]:
                    del table[name]

        return drop

    def _rank(self, entry: RegisteredCommand) -> int:
        """Get the rank of a command: first the bot's own, then plugins in the operator's order,
        then other installed plugins, then built-in plugins."""
        if entry.plugin is None:
            return -1
        if entry.owner in self._order:
            return self._order.index(entry.owner)
        return len(self._order) + entry.plugin.is_builtin
