"""Sends requests to language models. All models have the interface `ChatModel`."""
