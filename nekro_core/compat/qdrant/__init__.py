"""An embedded vector store, behind the names of Qdrant's client. `home` is what the bot holds: the
rest is loaded when a plugin first asks for it."""
