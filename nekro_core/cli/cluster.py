"""Implements ``nekro cluster credentials``: writes a configuration for nats-server that has one
user for each role, and prints the URL with which the processes of each role connect."""

import argparse
import sys
from pathlib import Path

from nekro_core.cluster.credentials import (
    ClusterCredentials,
    ClusterRole,
    CredentialsExist,
    write_configuration,
)


async def run(options: argparse.Namespace) -> int:
    """Write the configuration to the file that the command line names. Returns the exit status."""
    if bool(options.certificate) != bool(options.key):
        print("--certificate and --key belong together: give both or none", file=sys.stderr)
        return 2
    if not 0 < options.port < 65536:
        print(f"--port {options.port}: expected 1 to 65535", file=sys.stderr)
        return 2
    credentials = ClusterCredentials.make()
    text = credentials.configuration(
        port=options.port,
        folder=options.folder,
        certificate=options.certificate,
        key=options.key,
    )
    file = Path(options.file)
    try:
        write_configuration(file, text)
    except (CredentialsExist, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    encrypted = bool(options.certificate)
    server = f"{options.server or ('HOST' if encrypted else '127.0.0.1')}:{options.port}"
    print(f"{file} has the passwords. Start the server with: nats-server -c {file}")
    for role in ClusterRole:
        print(f"NEKRO_CLUSTER_URL of a {role}: {credentials.url(role, server, tls=encrypted)}")
    return 0
