"""Manages the bot's accounts on platforms while the bot runs, and stores requests of people."""
