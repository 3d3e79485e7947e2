"""``FileSystem``: the class behind ``ctx.fs``."""

from nekro_core.plugins.authoring.files import BoxFileSystem as FileSystem

__all__ = ["FileSystem"]
