"""Runs plugins' hooks, events and commands for received messages, model requests and sent
messages."""
