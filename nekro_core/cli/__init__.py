"""Implements the command line ``nekro``. The modules of a command are imported only when the
command runs."""

import argparse
import sys
from collections.abc import Sequence

import anyio

from nekro_core import __version__
from nekro_core.system.start_imports import quicken_imports


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    parser = argparse.ArgumentParser(prog="nekro", description="A chat bot that answers in Python.")
    parser.add_argument("--version", action="version", version=f"nekro-core {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("run", help="start the bot")
    commands.add_parser("gateway", help="start a process of a cluster: platforms and pages")
    commands.add_parser("worker", help="start a process of a cluster: it answers")
    _add_outbox_actions(commands.add_parser("outbox", help="messages that did not go out, or may"))
    _add_account_actions(commands.add_parser("accounts", help="list, name and bind accounts"))
    _add_operator_calls(
        commands.add_parser("operator", help="all that the console does, from the command line")
    )
    chat = commands.add_parser("chat", help="talk to the bot in this terminal")
    chat.add_argument(
        "--room", default="", help="a group room of the web chat; without it in private"
    )
    chat.add_argument("--name", default="you", help="who is speaking")
    commands.add_parser("doctor", help="what works here, what does not, how to mend it")
    commands.add_parser("fetch", help="download the embedded model's weights now")
    _add_backup_commands(commands)
    _add_settings_commands(commands)
    _add_document_actions(
        commands.add_parser("documents", help="settings, personas, policies: files or database")
    )
    _add_memory_actions(
        commands.add_parser("memory", help="export notes as JSON lines, or import them")
    )
    _add_cluster_actions(
        commands.add_parser("cluster", help="the NATS server of several processes")
    )
    _add_transfer_commands(commands)
    commands.add_parser("restart", help="restart the running bot, in the same process")
    _add_service_actions(commands.add_parser("service", help="run the bot as a systemd service"))
    _add_upgrade(commands.add_parser("upgrade", help="continue as another version, or go back"))
    _add_plugin_actions(commands.add_parser("plugin", help="write, try, install, list plugins"))
    _add_adapter_actions(commands.add_parser("adapter", help="list, write, check adapters"))
    mcp = commands.add_parser("mcp", help="offer tools to other agents over MCP, or use theirs")
    mcp.add_argument(
        "action",
        nargs="?",
        choices=("serve", "servers"),
        default="serve",
        help="serve: offer sandboxes and tools. servers: how those of data/mcp.json do",
    )
    mcp.add_argument(
        "--chat",
        default="",
        metavar="KEY",
        help="act in this chat (web-group_lobby); without it only tools that need none",
    )
    mcp.add_argument(
        "--http", action="store_true", help="over HTTP on 127.0.0.1 instead of stdin and stdout"
    )
    mcp.add_argument("--port", type=int, default=8081, help="of --http; 0 takes a free one")
    _add_sandbox_actions(commands.add_parser("sandbox", help="what boxes are made from"))
    options = parser.parse_args(arguments)
    if options.command in ("run", "gateway", "worker"):
        quicken_imports()
        if options.command == "run":
            from nekro_core.app.server import run  # noqa: PLC0415 - imports the web server

            return run()
        return _run_cluster_process(options.command)
    if options.command == "plugin" and options.action == "check":
        # This command starts a second process before it imports the bot.
        from nekro_core.cli.plugin_kit.check_command import check_command  # noqa: PLC0415

        return anyio.run(check_command, options)
    from nekro_core.cli.commands import find_command  # noqa: PLC0415 - `run` needs no other command

    command = find_command(options.command)
    from nekro_core.app.settings_sources import SettingsError  # noqa: PLC0415 - `run` needs none of it

    try:
        return anyio.run(command, options)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run_cluster_process(role: str) -> int:
    """Run a gateway or a worker, and return its exit status."""
    try:
        from nekro_core.app.cluster import start  # noqa: PLC0415 - needs the client of NATS
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "nats":
            raise
        print(
            f"`nekro {role}` needs the client of NATS, which is not installed: "
            "pip install 'nekro-core[cluster]'",
            file=sys.stderr,
        )
        return 2
    return start.run_gateway() if role == "gateway" else start.run_worker()


def _add_backup_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    backup = commands.add_parser("backup", help="save the bot's data, while it runs or not")
    backup.add_argument("file", nargs="?", default="", help="a new file; data/backups without it")
    backup.add_argument(
        "--with-secrets", action="store_true", help="tokens and .env too, encrypted: asks how"
    )
    backup.add_argument("--check", default="", metavar="FILE", help="check a backup")
    restore = commands.add_parser("restore", help="put a backup into a data folder")
    restore.add_argument("file", help="the backup")
    restore.add_argument("--into", default="", metavar="FOLDER", help="not into the data folder")
    restore.add_argument(
        "--replace", action="store_true", help="also if it has data, which is moved aside"
    )
    restore.add_argument(
        "--without-secrets", action="store_true", help="leave out the secrets of the backup"
    )


def _add_transfer_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    export = commands.add_parser("export", help="settings, personas, chats, notes as JSON lines")
    export.add_argument("file", nargs="?", default="", help="a new file; without it stdout")
    export.add_argument("--messages", action="store_true", help="the history of all chats too")
    imported = commands.add_parser("import", help="import such lines, also of other programs")
    imported.add_argument("file", help="the file; - for stdin")
    imported.add_argument(
        "--dry-run", action="store_true", help="only say what would be new; nothing is stored"
    )


def _add_upgrade(upgrade: argparse.ArgumentParser) -> None:
    upgrade.add_argument(
        "source", nargs="?", default="", help="a wheel, or a folder with the source"
    )
    upgrade.add_argument(
        "--versions", default="", metavar="FOLDER", help="for environments; beside the data folder"
    )
    upgrade.add_argument(
        "--within",
        type=float,
        default=None,
        metavar="S",
        help="how soon the new one must answer; 60 s and three times what its migration took",
    )
    # The version that runs calls the new version with this option, to try the migration on a copy
    # of the database.
    upgrade.add_argument("--check-database", action="store_true", help=argparse.SUPPRESS)


def _add_settings_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    shown = commands.add_parser("get", help="show a setting, or all")
    shown.add_argument("name", nargs="?", default="", help="as in settings.toml: agent.language")
    changed = commands.add_parser("set", help="change settings, also of a running bot")
    changed.add_argument(
        "words",
        nargs="*",
        metavar="NAME VALUE",
        help="several pairs are changed together; a name alone reads its value from stdin",
    )
    how = changed.add_mutually_exclusive_group()
    how.add_argument("--unset", action="store_true", help="remove the names: the default applies")
    how.add_argument(
        "--from-env", action="store_true", help="move the names, or all, from .env to the file"
    )


def _add_document_actions(documents: argparse.ArgumentParser) -> None:
    actions = documents.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="all documents, and where they differ; the bot must not run")
    copy = actions.add_parser("copy", help="from the files to the database, or back")
    copy.add_argument("--to", choices=("database", "files"), required=True, help="the new place")
    copy.add_argument(
        "--overwrite", action="store_true", help="also what differs there, or is there alone"
    )


def _add_memory_actions(memory: argparse.ArgumentParser) -> None:
    memory.add_argument("action", choices=("export", "import"))
    memory.add_argument("file", nargs="?", default="", help="the file; without it stdout or stdin")
    memory.add_argument("--chat", default="", metavar="KEY", help="only this chat, or into it")


def _add_cluster_actions(cluster: argparse.ArgumentParser) -> None:
    actions = cluster.add_subparsers(dest="action", required=True, metavar="ACTION")
    made = actions.add_parser("credentials", help="write a configuration for nats-server")
    made.add_argument("file", help="a new file for the configuration; it contains passwords")
    made.add_argument("--port", type=int, default=4222, help="the server's port")
    made.add_argument("--folder", default="data/nats", help="where the server stores its streams")
    made.add_argument("--certificate", default="", metavar="FILE", help="its certificate, for TLS")
    made.add_argument("--key", default="", metavar="FILE", help="the certificate's private key")
    made.add_argument("--server", default="", metavar="HOST", help="its name, for the addresses")


def _add_outbox_actions(outbox: argparse.ArgumentParser) -> None:
    actions = outbox.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="what waits, was refused, or nobody knows of")
    listed.add_argument("--states", default="", help="all, or some: sent,dropped,unknown,...")
    listed.add_argument("--chat", default="", metavar="KEY", help="of this chat alone")
    listed.add_argument("--limit", type=int, default=50, help="how many, the newest first")
    resend = actions.add_parser("resend", help="send one again; people may see it twice")
    drop = actions.add_parser("drop", help="let one go: it is not sent")
    for action in (resend, drop):
        action.add_argument("id", help="as in the list")


def _add_sandbox_actions(sandbox: argparse.ArgumentParser) -> None:
    image = sandbox.add_subparsers(dest="action", required=True, metavar="ACTION").add_parser(
        "image", help="make an image for boxes in containers"
    )
    image.add_argument("name", nargs="?", default="python", help="what boxes shall know it by")
    made_from = image.add_mutually_exclusive_group()
    made_from.add_argument("--from", dest="base", default="", help="an image, fetched if need be")
    made_from.add_argument("--root", default="", help="a folder with a root file system")
    made_from.add_argument("--debian", action="store_true", help="a Debian laid out now")
    made_from.add_argument("--this-machine", action="store_true", help="this machine's Python")


def _add_service_actions(service: argparse.ArgumentParser) -> None:
    actions = service.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="print the unit, and write nothing")
    install = actions.add_parser("install", help="write the unit; with --enable start it too")
    install.add_argument("--enable", action="store_true", help="start it now and at each start")
    status = actions.add_parser("status", help="whether it runs, with the end of its log")
    remove = actions.add_parser("remove", help="stop it and delete the unit; the data stays")
    for action in (show, install):
        action.add_argument(
            "--folder",
            default="",
            help="where .env and data/ are; /var/lib/nekro, with --user this folder",
        )
        action.add_argument(
            "--program", default="", metavar="NEKRO", help="the program; that of this environment"
        )
        action.add_argument(
            "--as", dest="run_as", default="nekro", metavar="NAME", help="the user who runs it"
        )
    for action in (show, install, status, remove):
        action.add_argument("--user", action="store_true", help="of your own service manager")
        action.add_argument("--name", default="nekro", help="the name of the service")


def _add_operator_calls(operator: argparse.ArgumentParser) -> None:
    operator.add_argument("name", nargs="?", default="", help="undelivered.newest; without: a list")
    operator.add_argument("parameters", nargs="*", metavar="NAME=VALUE", help="its parameters")
    operator.add_argument("--about", dest="help_about", action="store_true", help="what it takes")
    operator.add_argument("--yes", action="store_true", help="also if it deletes for good")


def _add_account_actions(accounts: argparse.ArgumentParser) -> None:
    actions = accounts.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="every account, and the instance in its chats' keys")
    name = actions.add_parser("name", help="name an account that has no chats yet")
    name.add_argument("adapter", help="onebot_v11, telegram, ...")
    name.add_argument("account", help="the platform's id of the account")
    name.add_argument("instance", help="letters, digits, '_' and '.'")
    bind = actions.add_parser("bind", help="let another account speak for an instance's chats")
    bind.add_argument("instance", help="as in the list")
    bind.add_argument("account", help="the platform's id of the new account")


def _add_adapter_actions(adapter: argparse.ArgumentParser) -> None:
    actions = adapter.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="every adapter, whether it runs, where it is")
    new = actions.add_parser("new", help="write an adapter with its tests, to begin from")
    new.add_argument("name", help="lower-case letters, digits and '_'")
    new.add_argument(
        "--folder", default="", help="where its folder is made; the bot's own adapters if not"
    )
    check = actions.add_parser("check", help="what the bot reads of it, and what is wrong")
    check.add_argument("path", help="its folder")


def _add_plugin_actions(plugin: argparse.ArgumentParser) -> None:
    actions = plugin.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("list", help="every plugin, its state and what is wrong with it")
    for action, done in (("enable", "on"), ("disable", "off")):
        switch = actions.add_parser(action, aliases=[done], help=f"switch one {done}")
        switch.add_argument("name", nargs="?", default="", help="its key or item, as in the list")
    new = actions.add_parser("new", help="write a plugin with a test, to begin from")
    new.add_argument("name", help="letters, digits and '_'")
    new.add_argument("--author", default="", help="first half of its key; your user's name if not")
    new.add_argument("--folder", default=".", help="where its folder is made")
    check = actions.add_parser("check", help="what a model sees of it, its cost, what is wrong")
    check.add_argument("path", help="its file or folder")
    run = actions.add_parser("run", help="talk to it; each saved file is loaded at once")
    run.add_argument("path", help="its file or folder")
    install = actions.add_parser("install", help="install one; says before what it may do")
    install.add_argument("source", help="a folder, a .py, a .zip or its address, a git address")
    install.add_argument("--force", action="store_true", help="also one that cannot be loaded here")
    update = actions.add_parser("update", help="install one again from where it came")
    update.add_argument("name", help="its key or item")
    update.add_argument(
        "--force",
        action="store_true",
        help="overwrite what was changed here, also with one that cannot be loaded",
    )
    rollback = actions.add_parser("rollback", help="go back to the version before the last update")
    rollback.add_argument("name", help="its key or item")
    rollback.add_argument("--to", type=int, default=None, metavar="N", help="an older one")
    remove = actions.add_parser("remove", help="remove one, its data only with --data")
    remove.add_argument("name", help="its key or item")
    remove.add_argument("--data", action="store_true", help="its configuration and files too")
    for asking in (install, update, rollback, remove):
        asking.add_argument("--yes", action="store_true", help="do not ask")
