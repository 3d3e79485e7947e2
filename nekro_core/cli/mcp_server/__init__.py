"""``nekro mcp``: the boxes and the plugins' tools for other agents, over MCP.

::

    bot_tools.py   the tools of the bot that runs, over its HTTP API
    bridge.py      the same as an MCP server
    transports.py  its two ways in: stdin and stdout, or streamable HTTP on loopback
    command.py     the command

Calls are carried out by the bot that owns the data folder, so that there is one owner of chats,
boxes and plugins' data; this process only translates. It alone imports the package ``mcp``, which
takes a second: the bot never does.

Source: Model Context Protocol, https://modelcontextprotocol.io/specification.
"""
