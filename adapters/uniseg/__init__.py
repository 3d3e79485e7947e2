"""Connects platforms through NoneBot's adapters: Telegram, Discord, Satori and more.

To enable a platform, the operator installs its extra and adds its name to ``NEKRO_PLATFORMS``.
Other platforms are not imported. The settings of a platform have the names that its NoneBot adapter
documents. The library uniseg of `nonebot-plugin-alconna` converts the messages, and this package
works around uniseg's faults (docs/decisions/0023).
"""

from .enabled import factories

__all__ = ["factories"]
