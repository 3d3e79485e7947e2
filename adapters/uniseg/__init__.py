"""The platforms that NoneBot's adapters speak, in one layer: Telegram, Discord, Satori and more.

Each is installed as an extra and named in ``NEKRO_PLATFORMS``; its tokens stand under the names
that its NoneBot adapter documents. What is not named is not imported. The messages are exchanged
with `nonebot-plugin-alconna`'s uniseg, whose surprises end here (docs/decisions/0023).
"""

from .enabled import factories

__all__ = ["factories"]
