"""Keeps the newest log lines in memory and in files, and lets readers search and follow them."""
