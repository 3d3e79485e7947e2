"""Connects platforms through NoneBot's adapters: Telegram, Discord, Satori and more.

A platform needs its extra, and its name in ``NEKRO_PLATFORMS``; other platforms are not imported.
Its settings have the names that its NoneBot adapter documents. The library uniseg of
`nonebot-plugin-alconna` converts the messages; this package works around its faults
(docs/decisions/0023).
"""

from .enabled import factories

__all__ = ["factories"]
