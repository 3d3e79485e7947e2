"""Connects mailboxes: it reads mail over IMAP and answers over SMTP.

Enabled by ``NEKRO_PLATFORMS=["mail"]``. ``MAIL_BOTS`` lists the mailboxes in the format of
nonebot-adapter-mail; docs/decisions/0025 says why that adapter is not used. Each thread of mails is
a chat.
"""

from nonebot.drivers import Driver

from nekro_core.api.adapter import Adapter, Host


def create(host: Host, driver: Driver) -> Adapter:
    """Make the adapter. Raises `ValueError` if the settings are invalid."""
    from .adapter import MailAdapter  # noqa: PLC0415 - erasing a person imports only `threads`
    from .settings import read_settings  # noqa: PLC0415

    return MailAdapter(host, driver, read_settings(host.settings))


__all__ = ["create"]
