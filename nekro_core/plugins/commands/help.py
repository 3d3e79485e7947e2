"""``/help``: lists the commands that a person may run in a chat."""

from itertools import groupby
from typing import Annotated

from nekro_core.chat import ChatKey
from nekro_core.chat.catalogue import Catalogue
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.plugins.commands.arguments import Arg, CommandParameter
from nekro_core.plugins.commands.book import CommandRegistry, RegisteredCommand
from nekro_core.plugins.commands.call import usage_of
from nekro_core.policy.permissions import CommandAccess, CommandSettings

_MANY = 40
"""If there are more commands than this, only their names are listed. A full list would take ten
messages."""


def help_command(
    book: CommandRegistry, settings: CommandSettings, catalogue: Catalogue, access: CommandAccess
) -> Command:
    """Make the command ``/help``, which lists the commands of ``book``."""
    say = catalogue.say

    def allowed(
        context: CommandExecutionContext, entries: list[RegisteredCommand]
    ) -> list[RegisteredCommand]:
        chat = ChatKey.parse(context.chat_key)
        rules = {
            entry: access.rule(chat, entry.setting_names(), entry.command.permission)
            for entry in entries
        }
        return [
            entry for entry, wanted in rules.items() if wanted and context.standing.allows(wanted)
        ]

    def line(entry: RegisteredCommand, lang: str) -> str:
        usage = usage_of(entry, settings.prefixes[0], lang)
        return f"{usage}: {entry.command.description_in(lang)}".rstrip(": ")

    def all_of(context: CommandExecutionContext) -> str:
        lang = context.lang
        lines = [say("command.help.all", lang)]
        entries = allowed(context, book.listed(context.adapter_key))
        for plugin, mine in groupby(entries, key=lambda entry: entry.plugin):
            if plugin is not None:
                lines += ["", plugin.name]
            if len(entries) > _MANY:
                lines.append(", ".join(f"{settings.prefixes[0]}{each.spoken}" for each in mine))
            else:
                lines += [line(entry, lang) for entry in mine]
        spoken = [
            (plugin, each)
            for plugin, each in book.spoken(context.adapter_key)
            if context.standing.allows(each.permission)
        ]
        for plugin, theirs in groupby(spoken, key=lambda both: both[0]):
            lines += ["", plugin.name]
            lines += [f"{each.usage}: {each.description}".rstrip(": ") for _, each in theirs]
        return "\n".join(lines)

    def one(entry: RegisteredCommand, context: CommandExecutionContext) -> str:
        lines = [line(entry, context.lang)]
        if entry.command.aliases:
            names = ", ".join(entry.command.aliases)
            lines.append(say("command.help.aliases", context.lang, names=names))
        lines += [_argument(parameter) for parameter in entry.signature.parameters]
        return "\n".join(lines)

    async def tell(
        context: CommandExecutionContext,
        command: Annotated[str, Arg(positional=True, greedy=True)] = "",
    ) -> CommandResponse:
        name = command.strip().lstrip("".join(settings.prefixes)).replace(" ", ".")
        if not name:
            return CmdCtl.message(all_of(context))
        adapter = context.adapter_key
        found = allowed(context, book.find(name, adapter) or book.members(name, adapter))
        if not found:
            shown = name[:40]
            return CmdCtl.failed(say("command.help.unknown", context.lang, name=shown))
        family = book.family(name)
        # The message must not begin with the name of a command: another bot in the group could take
        # the message for the command.
        title = family.description if family and family.description else ""
        head = [title or say("command.help.one", context.lang)]
        return CmdCtl.message("\n".join([*head, *(one(entry, context) for entry in found)]))

    aliases = catalogue.in_each("command.help.alias").values()
    return Command(
        name="help",
        handler=tell,
        aliases=tuple(alias for alias in aliases if alias != "help"),
        i18n_description=catalogue.in_each("command.help.does"),
    )


def _argument(parameter: CommandParameter) -> str:
    info = parameter.info
    shown = f"  {parameter.name} ({parameter.kind})"
    if info.description:
        shown += f": {info.description}"
    if info.choices:
        shown += f" [{' | '.join(map(str, info.choices))}]"
    if info.range:
        shown += f" [{info.range[0]:g} … {info.range[1]:g}]"
    return shown
