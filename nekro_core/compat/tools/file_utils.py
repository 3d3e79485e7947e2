"""``FileSystem``: the class behind ``ctx.fs``."""

from nekro_core.plugin.files import BoxFileSystem as FileSystem

__all__ = ["FileSystem"]
