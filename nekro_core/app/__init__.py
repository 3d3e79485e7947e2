"""Builds the bot from all rooms. See `nekro_core.app.app`."""

from nekro_core.app.app import App, Report

__all__ = ["App", "Report"]
