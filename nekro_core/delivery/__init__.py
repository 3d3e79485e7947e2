"""Receives and sends messages, each once and in order."""
