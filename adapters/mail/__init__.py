"""Connects mailboxes: reads mail over IMAP and answers over SMTP.

Enabled by ``NEKRO_PLATFORMS=["mail"]``. ``MAIL_BOTS`` lists the mailboxes in the format of
nonebot-adapter-mail. Each thread of mails is a chat. docs/decisions/0025 says why that adapter is
not used.
"""

from nonebot.drivers import Driver

from nekro_core.api.adapter import Adapter, Host


def create(host: Host, driver: Driver) -> Adapter:
    """Make the adapter. Raises `ValueError` for settings that cannot be read."""
    from .adapter import MailAdapter  # noqa: PLC0415 - erasing a person needs `threads` alone
    from .settings import read_settings  # noqa: PLC0415

    return MailAdapter(host, driver, read_settings(host.settings))


__all__ = ["create"]
