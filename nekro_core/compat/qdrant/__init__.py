"""Offers the embedded vector store with the class and method names of Qdrant's client.

The bot itself imports only `home`. The other modules are imported when a plugin first uses vectors.
"""
