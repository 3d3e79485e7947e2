"""Signs requests to S3. botocore, AWS's own library, finds the credentials and makes the signature;
`nekro_core.cluster.s3_requests` sends the requests."""

from collections.abc import Mapping
from typing import Any, Self

from anyio import to_thread
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError
from botocore.session import Session

from nekro_core.cluster.errors import ClusterMisconfigured, ClusterUnavailable
from nekro_core.cluster.settings import S3Settings

_REMEDY = (
    "set NEKRO_S3__ACCESS_KEY and NEKRO_S3__SECRET_KEY, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY"
)


class S3Signer:
    """Signs requests with the newest credentials. Use `S3Signer.open`."""

    def __init__(self, credentials: Any, region: str) -> None:
        self._credentials = credentials
        self._region = region

    @classmethod
    async def open(cls, settings: S3Settings, region: str) -> Self:
        """Find the credentials: in the settings, else where AWS's programs look for them. Raises
        `ClusterMisconfigured`."""
        access = settings.access_key.get_secret_value()
        secret = settings.secret_key.get_secret_value()
        if bool(access) != bool(secret):
            raise ClusterMisconfigured(
                "one of NEKRO_S3__ACCESS_KEY and NEKRO_S3__SECRET_KEY is set, and the other is "
                "not: set both, or neither"
            )
        if access:
            return cls(Credentials(access, secret), region)
        try:
            # In a thread, because this reads files and may ask the machine's cloud for a role.
            credentials = await to_thread.run_sync(lambda: Session().get_credentials())
        except BotoCoreError as error:
            raise ClusterMisconfigured(
                f"the credentials for S3 cannot be read ({error}): {_REMEDY}"
            ) from error
        if credentials is None:
            raise ClusterMisconfigured(f"there are no credentials for S3: {_REMEDY}")
        return cls(credentials, region)

    async def sign(
        self, method: str, url: str, headers: Mapping[str, str], sha256: str
    ) -> dict[str, str]:
        """Return the headers of a signed request.

        Args:
            method: The method, such as ``GET``.
            url: The URL as it will be sent.
            headers: The headers that the signature covers, besides those that it adds.
            sha256: The digest of the body in hex. The server refuses a body with another one.

        Raises:
            ClusterUnavailable: The credentials have run out, and there are no new ones now.
        """
        try:
            # Credentials of a role run out after some hours. Then this asks for new ones.
            credentials = await to_thread.run_sync(self._credentials.get_frozen_credentials)
        except BotoCoreError as error:
            raise ClusterUnavailable(f"there are no credentials for S3 now: {error}") from error
        request = AWSRequest(method=method, url=url, headers=dict(headers))
        _KnownDigest(credentials, self._region, sha256).add_auth(request)
        return dict(request.headers.items())


class _KnownDigest(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """Signs a request with a digest of the body that is known. botocore would read the whole body
    for the digest while the event loop waits."""

    def __init__(self, credentials: Any, region: str, sha256: str) -> None:
        super().__init__(credentials, "s3", region)
        self._sha256 = sha256

    def payload(self, request: Any) -> str:  # noqa: ARG002 - the parameter is botocore's
        return self._sha256
