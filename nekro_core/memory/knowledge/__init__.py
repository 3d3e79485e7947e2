"""Reads folders of documents, and finds pieces of these documents for the bot."""
