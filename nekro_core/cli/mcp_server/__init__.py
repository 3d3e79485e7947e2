"""Implements ``nekro mcp``, which offers the boxes and the plugins' tools to other agents over MCP.

::

    bot_tools.py   lists and calls the running bot's tools over its HTTP API
    bridge.py      offers these tools as an MCP server
    transports.py  connects MCP clients over stdin and stdout, or streamable HTTP on loopback
    command.py     runs the command

The bot that owns the data folder carries out the calls, so chats, boxes and plugins' data have one
owner. The process of ``nekro mcp`` only translates between MCP and the bot's HTTP API. It imports
the package ``mcp``, which takes a second.

The protocol is the Model Context Protocol, https://modelcontextprotocol.io/specification.
"""
