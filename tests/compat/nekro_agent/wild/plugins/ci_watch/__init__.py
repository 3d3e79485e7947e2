from .plugin import plugin
from . import commands, tasks, webhook

__all__ = ["plugin"]
