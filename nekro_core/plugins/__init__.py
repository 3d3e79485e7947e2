"""Plugins: what their authors use, how the bot loads and runs them, and what they may access."""
