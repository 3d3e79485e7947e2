"""Folders of documents in which the bot looks things up."""
