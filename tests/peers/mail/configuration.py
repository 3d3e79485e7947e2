"""Writes configuration files with which Postfix and Dovecot run in one folder and on free ports."""

from dataclasses import dataclass
from pathlib import Path

QUEUES = {
    "active": 0o700, "bounce": 0o700, "corrupt": 0o700, "defer": 0o700, "deferred": 0o700,
    "flush": 0o700, "hold": 0o700, "incoming": 0o700, "private": 0o700, "saved": 0o700,
    "trace": 0o700, "maildrop": 0o730, "public": 0o710, "pid": 0o755,
}  # fmt: skip
"""The folders of Postfix's queue and their modes, as Postfix's ``post-install`` makes them. Making
them here saves the two seconds that ``post-install`` and its checks take."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Port numbers on 127.0.0.1."""

    smtp: int
    imap: int
    lmtp: int
    auth: int


def dovecot(folder: Path, ports: Ports) -> str:
    return f"""
protocols = imap lmtp
listen = 127.0.0.1
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/dovecot.log
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login
mail_location = maildir:{folder}/mail/%u
mail_uid = mail
mail_gid = mail
first_valid_uid = 1
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {ports.imap}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {ports.lmtp}
  }}
}}
service auth {{
  inet_listener {{
    address = 127.0.0.1
    port = {ports.auth}
  }}
}}
passdb {{
  driver = passwd-file
  args = scheme=PLAIN username_format=%u {folder}/users
}}
userdb {{
  driver = static
  args = uid=mail gid=mail home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
}}
"""


def postfix_main(folder: Path, ports: Ports, domain: str) -> str:
    return f"""
compatibility_level = 3.6
queue_directory = {folder}/queue
data_directory = {folder}/postfix-data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mail.{domain}
mydestination =
local_recipient_maps =
alias_maps =
alias_database =
virtual_mailbox_domains = {domain}
virtual_mailbox_maps = texthash:{folder}/boxes
virtual_transport = lmtp:inet:127.0.0.1:{ports.lmtp}
default_transport = error:this server serves {domain} only
# One at a time, so that mails arrive in the order in which they were sent.
default_destination_concurrency_limit = 1
initial_destination_concurrency = 1
mynetworks = 127.0.0.0/8
smtpd_sasl_auth_enable = yes
smtpd_sasl_type = dovecot
smtpd_sasl_path = inet:127.0.0.1:{ports.auth}
smtpd_peername_lookup = no
maillog_file = {folder}/postfix.log
maillog_file_prefixes = /
"""


def postfix_master(ports: Ports) -> str:
    return f"""
127.0.0.1:{ports.smtp} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
"""
