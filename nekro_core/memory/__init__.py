"""Remembers what was said: the search of messages, notes, summaries of earlier messages, and
documents in which the bot looks things up. Words of one chat never reach another chat, unless an
operator has linked the two chats."""
