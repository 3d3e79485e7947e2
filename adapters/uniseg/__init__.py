"""Connects the platforms of NoneBot's adapters in one layer: Telegram, Discord, Satori and more.

Each platform is installed as an extra and named in ``NEKRO_PLATFORMS``. Its settings have the names
that its NoneBot adapter documents. Other platforms are not imported. Messages are converted by
uniseg of `nonebot-plugin-alconna`; this layer hides its peculiarities (docs/decisions/0023).
"""

from .enabled import factories

__all__ = ["factories"]
