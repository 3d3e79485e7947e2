"""Exports what the bot knows as JSON lines, and imports such lines.

docs/export-format.md describes the lines for other programs. `lines` reads and writes them,
`exporter` and `importer` connect them with the bot, `history` imports messages, and `area` offers
both to operators.
"""
