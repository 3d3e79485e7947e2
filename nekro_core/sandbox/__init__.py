"""Isolated boxes that run code and keep files. A library: it knows nothing of chats."""
