"""The embedded vector store under the names of Qdrant's client.

The bot itself loads only `home`. The other modules are loaded when a plugin first uses vectors.
"""
