"""Reads where the objects of a cluster are: ``NEKRO_CLUSTER_OBJECTS`` and ``NEKRO_S3__...``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlsplit

from nekro_core.cluster.cluster_url import is_loopback
from nekro_core.cluster.errors import ClusterMisconfigured
from nekro_core.cluster.settings import S3Settings

NATS_OBJECTS = "nats"
"""The value of ``NEKRO_CLUSTER_OBJECTS`` for the object store of NATS, which is the default."""
_SCHEME = "s3://"
_EXPECTED = "expected nats, or s3://BUCKET, or s3://BUCKET/FOLDER"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_PREFIX = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*\Z")
_PREFIX_LENGTH = 500
"""Maximum number of characters of the folder in the bucket. A key has at most 1024 bytes in S3, and
the names of our objects need up to 300."""
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """A bucket of an S3 server, and the place of our objects in it.

    Attributes:
        bucket: The bucket's name.
        prefix: The beginning of the keys of all our objects. It is empty or ends with a slash.
        endpoint: The server's address, without a slash at its end.
        region: The region with which requests are signed.
        bucket_in_path: Whether the path of a URL names the bucket, and not its host.
    """

    bucket: str
    prefix: str
    endpoint: str
    region: str
    bucket_in_path: bool

    def __str__(self) -> str:
        return f"{self.place} at {self.endpoint}"

    @property
    def place(self) -> str:
        """The bucket and the folder, without the server: ``s3://BUCKET/FOLDER/``."""
        return f"{_SCHEME}{self.bucket}/{self.prefix}"

    def url(self, key: str = "") -> str:
        """Return the URL of an object, or of the bucket."""
        # Servers compute the signature from a path in which every character but these is escaped,
        # so the path must be sent and signed in this form.
        path = quote(key, safe="/-_.~")
        if self.bucket_in_path:
            return f"{self.endpoint}/{self.bucket}/{path}"
        scheme, _, rest = self.endpoint.partition("://")
        return f"{scheme}://{self.bucket}.{rest}/{path}"

    @classmethod
    def read(cls, text: str, settings: S3Settings, environment: Mapping[str, str]) -> Self | None:
        """Return the bucket that the settings name; None if the objects are in NATS.

        Args:
            text: The value of ``NEKRO_CLUSTER_OBJECTS``.
            settings: The settings ``NEKRO_S3__...``.
            environment: The process's environment. Its variables of AWS stand in for settings that
                are empty.

        Raises:
            ClusterMisconfigured: A value does not fit. The text says which.
        """
        text = text.strip()
        if text in ("", NATS_OBJECTS):
            return None
        bucket, _, prefix = text.removeprefix(_SCHEME).partition("/")
        prefix = prefix.strip("/")
        if not text.startswith(_SCHEME) or not _BUCKET.match(bucket) or ".." in bucket:
            raise ClusterMisconfigured(f"NEKRO_CLUSTER_OBJECTS is {text[:200]!r}: {_EXPECTED}")
        if prefix and (len(prefix) > _PREFIX_LENGTH or not _PREFIX.match(prefix)):
            raise ClusterMisconfigured(
                f"NEKRO_CLUSTER_OBJECTS names the folder {prefix[:200]!r}: expected parts of "
                f"letters, digits, '_', '-', '=' and '.', of at most {_PREFIX_LENGTH} characters"
            )
        region = _first(settings.region, environment, "AWS_REGION", "AWS_DEFAULT_REGION")
        region = region or "us-east-1"
        if not _REGION.match(region):
            raise ClusterMisconfigured(
                f"the region of S3 is {region[:80]!r}: expected letters, digits and '-', for "
                "example eu-central-1"
            )
        named = _first(settings.endpoint, environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        if named:
            _check_endpoint(named)
        in_path = settings.addressing == "path" or (
            # A certificate for *.example.org does not cover a host with more dots.
            settings.addressing == "auto" and (bool(named) or "." in bucket)
        )
        return cls(
            bucket=bucket,
            prefix=f"{prefix}/" if prefix else "",
            endpoint=named.rstrip("/") or _endpoint_of_aws(region),
            region=region,
            bucket_in_path=in_path,
        )


def _first(value: str, environment: Mapping[str, str], *names: str) -> str:
    """Return the setting, or the first of the variables that is not empty."""
    return next((each for each in (value, *map(environment.get, names)) if each), "").strip()


def _endpoint_of_aws(region: str) -> str:
    return f"https://s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def _check_endpoint(endpoint: str) -> None:
    """Check the address of a server. Raises `ClusterMisconfigured`."""
    expected = "expected https://HOST, or http://127.0.0.1:PORT for a server on this machine"
    try:
        parts = urlsplit(endpoint)
        port = parts.port  # raises ValueError for a wrong port
    except ValueError as error:
        raise ClusterMisconfigured(
            f"the address of the S3 server (NEKRO_S3__ENDPOINT) is no URL ({error}): {expected}"
        ) from None
    if parts.username or parts.password:
        raise ClusterMisconfigured(
            "the address of the S3 server (NEKRO_S3__ENDPOINT) contains a user or a password: "
            "write NEKRO_S3__ACCESS_KEY and NEKRO_S3__SECRET_KEY instead"
        )
    odd = parts.query or parts.fragment or port == 0 or not parts.hostname
    if parts.scheme not in ("http", "https") or odd:
        raise ClusterMisconfigured(
            f"the address of the S3 server (NEKRO_S3__ENDPOINT) is {endpoint[:200]!r}: {expected}"
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ClusterMisconfigured(
            f"the S3 server {parts.hostname} is not on this machine, and http:// would send "
            f"people's files unencrypted: {expected}"
        )
