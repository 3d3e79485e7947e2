"""E-mail: a mailbox that is read by IMAP and answered by SMTP.

``NEKRO_PLATFORMS=["mail"]``, and the mailboxes in ``MAIL_BOTS`` as nonebot-adapter-mail has them. A
thread of mails is a chat. See docs/decisions/0025 for why this is not that adapter.
"""

from nonebot.drivers import Driver

from nekro_core.api.adapter import Adapter, Host


def create(host: Host, driver: Driver) -> Adapter:
    """The adapter. Raises `ValueError` for settings that cannot be read."""
    from .adapter import MailAdapter  # noqa: PLC0415 - erasing a person needs `threads` alone
    from .settings import read_settings  # noqa: PLC0415

    return MailAdapter(host, driver, read_settings(host.settings))


__all__ = ["create"]
