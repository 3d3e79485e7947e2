"""Implements ``nekro mcp``, which offers the boxes and the plugins' tools to other agents over MCP.

::

    bot_tools.py   the tools of the bot that runs, over its HTTP API
    bridge.py      the same as an MCP server
    transports.py  its two ways in: stdin and stdout, or streamable HTTP on loopback
    command.py     the command

The bot that owns the data folder carries out the calls, so chats, boxes and plugins' data have one
owner. The process of ``nekro mcp`` only translates between MCP and the bot's HTTP API. It imports
the package ``mcp``, which takes a second.

The protocol is the Model Context Protocol, https://modelcontextprotocol.io/specification.
"""
