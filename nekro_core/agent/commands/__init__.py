"""The bot's built-in chat commands: status, policy, erasure."""
