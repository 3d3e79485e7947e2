"""Compares nekro-core with two other chat bots in one run: ``make peers``.

Each bot is a separate program in its own environment. All use the same fake OneBot implementation
and the same scripted model. The other bots run as their users run them, and are configured through
their own files and HTTP API. No source code of theirs is in this repository.
"""
