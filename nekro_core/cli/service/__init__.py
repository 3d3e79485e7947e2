"""Implements ``nekro service``: runs the bot as a systemd service."""
