"""Writes a configuration file for nats-server that has one user for each role of a process.

A user may send and receive only on the subjects that its role needs. docs/cluster.md lists what
somebody who has stolen a worker's password can and cannot do; a test tries each point.
"""

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nekro_core.cluster.subjects import (
    CALL_SUBJECT,
    CANCEL_SUBJECT,
    LEASE_STREAM,
    LEASE_SUBJECT,
    OBJECT_BUCKET,
    PARTITION_STREAM,
    PARTITION_SUBJECT,
    PRESENCE_STREAM,
    PRESENCE_SUBJECT,
)
from nekro_core.system.errors import NekroError

_PASSWORD_BYTES = 32
_OBJECTS = f"OBJ_{OBJECT_BUCKET}"


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
    """

    publish: Sequence[str]
    subscribe: Sequence[str]


_OF_ALL = (
    "$JS.API.INFO",
    f"$JS.API.STREAM.INFO.{PARTITION_STREAM}",
    f"$JS.API.CONSUMER.LIST.{PARTITION_STREAM}",
    f"{PARTITION_SUBJECT}.*",
    # The object store: information about its stream, consumers that read the chunks of an object,
    # and the objects themselves.
    "$JS.API.STREAM.NAMES",
    f"$JS.API.STREAM.INFO.{_OBJECTS}",
    f"$JS.API.STREAM.PURGE.{_OBJECTS}",
    f"$JS.API.STREAM.MSG.GET.{_OBJECTS}",
    f"$JS.API.DIRECT.GET.{_OBJECTS}.>",
    f"$JS.API.CONSUMER.CREATE.{_OBJECTS}.>",
    f"$JS.API.CONSUMER.CREATE.{_OBJECTS}",
    f"$JS.API.CONSUMER.DELETE.{_OBJECTS}.>",
    f"$JS.FC.{_OBJECTS}.>",
    f"$O.{OBJECT_BUCKET}.>",
)
PERMISSIONS: Mapping[ClusterRole, SubjectPermissions] = {
    ClusterRole.GATEWAY: SubjectPermissions(
        publish=(
            *_OF_ALL,
            f"$JS.API.STREAM.CREATE.{PARTITION_STREAM}",
            f"$JS.API.CONSUMER.CREATE.{PARTITION_STREAM}.>",
            f"$JS.API.STREAM.CREATE.{_OBJECTS}",
            f"$JS.API.STREAM.CREATE.{LEASE_STREAM}",
            f"$JS.API.STREAM.PURGE.{LEASE_STREAM}",
            f"$JS.API.STREAM.MSG.GET.{LEASE_STREAM}",
            f"{LEASE_SUBJECT}.*",
            f"_INBOX_{ClusterRole.WORKER}.>",
        ),
        subscribe=(f"{CALL_SUBJECT}.>", f"{CANCEL_SUBJECT}.>", f"_INBOX_{ClusterRole.GATEWAY}.>"),
    ),
    ClusterRole.WORKER: SubjectPermissions(
        publish=(
            *_OF_ALL,
            f"$JS.API.CONSUMER.INFO.{PARTITION_STREAM}.*",
            f"$JS.API.CONSUMER.MSG.NEXT.{PARTITION_STREAM}.*",
            f"$JS.API.CONSUMER.UNPIN.{PARTITION_STREAM}.*",
            f"$JS.ACK.{PARTITION_STREAM}.>",
            f"$JS.API.STREAM.CREATE.{PRESENCE_STREAM}",
            f"$JS.API.STREAM.INFO.{PRESENCE_STREAM}",
            f"$JS.API.STREAM.PURGE.{PRESENCE_STREAM}",
            f"{PRESENCE_SUBJECT}.*",
            f"{CALL_SUBJECT}.>",
            f"{CANCEL_SUBJECT}.>",
        ),
        subscribe=(f"_INBOX_{ClusterRole.WORKER}.>",),
    ),
}
"""The permissions of each role. The gateways make the streams of the partitions, leases and
objects, so that a worker needs no permission to make these streams or to change their
configuration."""


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
        lines += ["authorization {", "  users = ["]
        lines += [self._user(role) for role in ClusterRole]
        lines += ["  ]", "}", ""]
        return "\n".join(lines)

    def _user(self, role: ClusterRole) -> str:
        allowed = PERMISSIONS[role]
        permissions = json.dumps(
            {
                "publish": {"allow": [*allowed.publish]},
                "subscribe": {"allow": [*allowed.subscribe]},
            }
        )
        password = json.dumps(self.passwords[role])
        return f'    {{ user: "{role}", password: {password}, permissions: {permissions} }}'


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
