"""Asks language models through one protocol."""
