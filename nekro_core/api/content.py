"""Words, pictures and sounds for a model."""

from nekro_core.tools.content import AudioContent, Content, ImageContent, TextContent

__all__ = ["AudioContent", "Content", "ImageContent", "TextContent"]
