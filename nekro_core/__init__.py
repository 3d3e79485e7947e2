"""A chat-bot framework whose AI answers by writing Python that runs in an isolated box."""

__version__ = "0.1.0"
