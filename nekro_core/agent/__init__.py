"""The agent of a chat: when it answers, what it is told, and how its reply runs."""
