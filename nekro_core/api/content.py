"""Re-exports the types for text, pictures and sound that a model can get."""

from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent

__all__ = ["AudioContent", "Content", "ImageContent", "TextContent"]
