"""Writes a configuration file for nats-server that has one user for each role of a process.

A user may send and receive only on the subjects that its role needs. That is not enough: whoever
sends a request chooses the subject of the answer, and NATS delivers the answer without asking what
the sender may do. So the users are in two *accounts* of NATS. Gateways have all streams in theirs.
Workers reach the subjects that they need by *imports*, and get answers only on subjects of their
own account. docs/cluster.md lists what somebody who has stolen a worker's password can and cannot
do; a test tries each point.
"""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nekro_core.cluster.subjects import (
    ACTIVITY_SUBJECT,
    CALL_SUBJECT,
    CANCEL_SUBJECT,
    GATEWAY_CALL_SUBJECT,
    GATEWAY_CANCEL_SUBJECT,
    LEASE_STREAM,
    LEASE_SUBJECT,
    OBJECT_BUCKET,
    OBJECT_STREAM,
    PARTITION_STREAM,
    PARTITION_SUBJECT,
    PRESENCE_STREAM,
    PRESENCE_SUBJECT,
    WORKER_CALL_SUBJECT,
    WORKER_CANCEL_SUBJECT,
)
from nekro_core.system.errors import NekroError

_PASSWORD_BYTES = 32
"""Number of random bytes of a password: as many as a key of AES-256, so it cannot be guessed."""
_ANSWERS = {"max": 1, "expires": "11m"}
"""A process may answer each call of a gateway once, to the subject that the call names, and for 11
minutes: a call takes at most 10 minutes (`calls.LONGEST_CALL_S`). Otherwise a worker may send
nothing to the inboxes of gateways."""


class CredentialsExist(NekroError):
    """The file for the configuration exists already. It is not overwritten."""


class ClusterRole(StrEnum):
    """The role of a process of the cluster: a gateway connects to platforms, a worker answers."""

    GATEWAY = "gateway"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class SubjectPermissions:
    """The NATS subjects to which a user may send and from which the user may receive.

    Attributes:
        publish: Subjects to send to.
        subscribe: Subjects to receive from.
        answers: Whether the user may answer each received request once.
    """

    publish: Sequence[str]
    subscribe: Sequence[str]
    answers: bool = False


_OF_ALL = (
    "$JS.API.INFO",
    f"$JS.API.STREAM.INFO.{PARTITION_STREAM}",
    f"$JS.API.CONSUMER.LIST.{PARTITION_STREAM}",
    f"{PARTITION_SUBJECT}.*",
    # The object store: its stream, and the objects themselves. Nobody may make a consumer there:
    # the subject to which a consumer sends is not checked.
    f"$JS.API.STREAM.INFO.{OBJECT_STREAM}",
    f"$JS.API.STREAM.PURGE.{OBJECT_STREAM}",
    f"$JS.API.STREAM.MSG.GET.{OBJECT_STREAM}",
    f"$JS.API.STREAM.MSG.DELETE.{OBJECT_STREAM}",
    f"$JS.API.DIRECT.GET.{OBJECT_STREAM}",
    f"$O.{OBJECT_BUCKET}.>",
)
_TO_PROCESSES = (
    f"{WORKER_CALL_SUBJECT}.*",
    f"{WORKER_CANCEL_SUBJECT}.*",
    f"{GATEWAY_CALL_SUBJECT}.*",
    f"{GATEWAY_CANCEL_SUBJECT}.*",
)
"""The subjects on which the console of a gateway asks the other processes."""
PERMISSIONS: Mapping[ClusterRole, SubjectPermissions] = {
    ClusterRole.GATEWAY: SubjectPermissions(
        publish=(
            *_OF_ALL,
            "$JS.API.STREAM.NAMES",
            f"$JS.API.STREAM.CREATE.{PARTITION_STREAM}",
            f"$JS.API.CONSUMER.CREATE.{PARTITION_STREAM}.>",
            f"$JS.API.STREAM.CREATE.{OBJECT_STREAM}",
            f"$JS.API.STREAM.CREATE.{LEASE_STREAM}",
            f"$JS.API.STREAM.CREATE.{PRESENCE_STREAM}",
            f"$JS.API.STREAM.PURGE.{LEASE_STREAM}",
            f"$JS.API.STREAM.MSG.GET.{LEASE_STREAM}",
            f"{LEASE_SUBJECT}.*",
            *_TO_PROCESSES,
        ),
        subscribe=(
            f"{CALL_SUBJECT}.>",
            f"{CANCEL_SUBJECT}.>",
            ACTIVITY_SUBJECT,
            f"_INBOX_{ClusterRole.GATEWAY}.>",
            f"{GATEWAY_CALL_SUBJECT}.*",
            f"{GATEWAY_CANCEL_SUBJECT}.*",
        ),
        answers=True,
    ),
    ClusterRole.WORKER: SubjectPermissions(
        publish=(
            *_OF_ALL,
            f"$JS.API.CONSUMER.INFO.{PARTITION_STREAM}.*",
            f"$JS.API.CONSUMER.MSG.NEXT.{PARTITION_STREAM}.*",
            f"$JS.API.CONSUMER.UNPIN.{PARTITION_STREAM}.*",
            f"$JS.ACK.{PARTITION_STREAM}.>",
            f"$JS.API.STREAM.INFO.{PRESENCE_STREAM}",
            f"$JS.API.STREAM.PURGE.{PRESENCE_STREAM}",
            f"{PRESENCE_SUBJECT}.*",
            f"{CALL_SUBJECT}.>",
            f"{CANCEL_SUBJECT}.>",
            ACTIVITY_SUBJECT,
        ),
        subscribe=(
            f"_INBOX_{ClusterRole.WORKER}.>",
            f"{WORKER_CALL_SUBJECT}.*",
            f"{WORKER_CANCEL_SUBJECT}.*",
        ),
        answers=True,
    ),
}
"""The permissions of each role. The gateways make all streams, so that a worker needs no permission
to make streams or to change their configuration."""
_ACCOUNTS: Mapping[ClusterRole, str] = {
    ClusterRole.GATEWAY: "GATEWAYS",
    ClusterRole.WORKER: "WORKERS",
}
"""The NATS account of each role."""
_IMPORTS: Mapping[ClusterRole, Sequence[str]] = {
    ClusterRole.GATEWAY: (f"{WORKER_CALL_SUBJECT}.*", f"{WORKER_CANCEL_SUBJECT}.*"),
    ClusterRole.WORKER: PERMISSIONS[ClusterRole.WORKER].publish,
}
"""The subjects that each role uses in the other account: it sends there and gets the answers."""
_CALLS = (f"{CALL_SUBJECT}.>", f"{WORKER_CALL_SUBJECT}.*")
"""The subjects of requests whose answer may take as long as `_ANSWERS` says. NATS delivers an
answer to another account for 2 minutes if nothing else is set."""
_MANY_ANSWERS = (f"{CANCEL_SUBJECT}.>", f"{WORKER_CANCEL_SUBJECT}.*")
"""The subjects on which several processes answer the same question (`nats_calls.py`)."""


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """The passwords of the roles. Writes the configuration of nats-server that contains them."""

    passwords: Mapping[ClusterRole, str]

    @classmethod
    def make(cls) -> "ClusterCredentials":
        """Make new random passwords."""
        return cls({role: secrets.token_urlsafe(_PASSWORD_BYTES) for role in ClusterRole})

    def url(self, role: ClusterRole, server: str, *, tls: bool) -> str:
        """Return the ``NEKRO_CLUSTER_URL`` of a role. ``server`` is ``HOST:PORT``."""
        scheme = "tls" if tls else "nats"
        return f"{scheme}://{role}:{self.passwords[role]}@{server}"

    def configuration(
        self, *, port: int, folder: str, certificate: str = "", key: str = "", host: str = ""
    ) -> str:
        """Return the text of the server's configuration file.

        Args:
            port: The port on which the server listens.
            folder: The folder in which JetStream stores its streams.
            certificate: The file of the server's certificate; empty for a server without TLS, which
                only processes of the same machine should reach.
            key: The file of the certificate's private key.
            host: The address on which the server listens. If it is empty, a server with TLS listens
                on all addresses, and a server without TLS on 127.0.0.1.
        """
        listen = host or ("0.0.0.0" if certificate else "127.0.0.1")  # noqa: S104 (with TLS only)
        lines = [
            "# Written by `nekro cluster credentials`. It contains passwords.",
            f"listen: {json.dumps(f'{listen}:{port}')}",
            f"jetstream {{ store_dir: {json.dumps(folder)} }}",
        ]
        if certificate:
            files = f"cert_file: {json.dumps(certificate)}, key_file: {json.dumps(key)}"
            lines.append(f"tls {{ {files}, handshake_first: true }}")
        lines.append("accounts {")
        for role in ClusterRole:
            lines += self._account(role)
        lines += ["}", ""]
        return "\n".join(lines)

    def _account(self, role: ClusterRole) -> Sequence[str]:
        """Return the lines of one account: its user, and what the accounts use of each other."""
        (other,) = (each for each in ClusterRole if each is not role)
        lines = [f"  {_ACCOUNTS[role]} {{"]
        if role is ClusterRole.GATEWAY:
            lines.append("    jetstream: enabled")
        lines += ["    users = [", self._user(role), "    ]", "    exports = ["]
        lines += [_export(subject, _ACCOUNTS[other]) for subject in _IMPORTS[other]]
        lines += ["    ]", "    imports = ["]
        lines += [_import(subject, _ACCOUNTS[other]) for subject in _IMPORTS[role]]
        return [*lines, "    ]", "  }"]

    def _user(self, role: ClusterRole) -> str:
        allowed = PERMISSIONS[role]
        given: dict[str, object] = {
            "publish": {"allow": [*allowed.publish]},
            "subscribe": {"allow": [*allowed.subscribe]},
        }
        if allowed.answers:
            given["allow_responses"] = _ANSWERS
        permissions = json.dumps(given)
        password = json.dumps(self.passwords[role])
        return f'      {{ user: "{role}", password: {password}, permissions: {permissions} }}'


def _export(subject: str, account: str) -> str:
    """Return the line with which an account lets another one use a subject."""
    given: dict[str, object] = {"service": subject, "accounts": [account]}
    if subject in _CALLS:
        given["threshold"] = _ANSWERS["expires"]
    if subject in _MANY_ANSWERS:
        given["response_type"] = "stream"
    return f"      {json.dumps(given)}"


def _import(subject: str, account: str) -> str:
    """Return the line with which an account uses a subject of another one."""
    return f"      {json.dumps({'service': {'account': account, 'subject': subject}})}"


def write_configuration(file: Path, text: str) -> None:
    """Write a new file that only its owner can read. Raises `CredentialsExist` and `OSError`."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise CredentialsExist(
            f"{file} exists. Its passwords are in use: name another file, or delete it first"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
