"""Re-exports the types for text, pictures and sound in requests to a model."""

from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent

__all__ = ["AudioContent", "Content", "ImageContent", "TextContent"]
