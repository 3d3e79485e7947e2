"""Builds the bot from all rooms. See `nekro_core.app.app`."""
