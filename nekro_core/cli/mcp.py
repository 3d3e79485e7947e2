"""Implements ``nekro mcp``: offers tools to other agents over MCP, or lists the MCP servers that
the bot uses."""

import argparse
import sys
from importlib.util import find_spec

from nekro_core.app.settings import Settings
from nekro_core.tools.mcp_client import server_status_lines


async def run(options: argparse.Namespace) -> int:
    """Serve tools, or list the servers that the bot uses. Return the exit status."""
    if options.action == "servers":
        print(server_status_lines(Settings.load().nekro_data_dir))
        return 0
    if find_spec("mcp") is None:
        print("nekro mcp needs the package mcp: pip install 'nekro-core[mcp]'", file=sys.stderr)
        return 1
    from nekro_core.cli.mcp_server.command import serve_tools  # noqa: PLC0415 - imports `mcp`, an extra

    return await serve_tools(options)
