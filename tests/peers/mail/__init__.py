"""A real mail server: Debian's Postfix and Dovecot, started by the test."""

from tests.peers.mail.server import DOMAIN, PASSWORD, MailServer, missing

__all__ = ["DOMAIN", "PASSWORD", "MailServer", "missing"]
