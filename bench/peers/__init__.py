"""nekro-core beside two other chat bots, in one run: ``make peers``.

Each bot is a program of its own in an environment of its own. All have the same fake OneBot
implementation on one side and the same scripted model on the other. The others are run as their
users run them, configured through their own files and HTTP API; nothing of their source is here.
"""
