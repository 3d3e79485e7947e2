"""A mail server: Debian's Postfix and Dovecot as processes of the test's own."""

from tests.peers.mail.server import DOMAIN, PASSWORD, MailServer, missing

__all__ = ["DOMAIN", "PASSWORD", "MailServer", "missing"]
