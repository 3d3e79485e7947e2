"""Reads the answers of S3 servers: errors, lists of objects and lists of versions."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from nekro_core.cluster.errors import ClusterUnavailable

_TEXT_LENGTH = 300
"""Maximum number of characters of a server's words in our error texts."""
_LASTING = frozenset(
    {
        "AccessDenied",
        "AccountProblem",
        "AllAccessDisabled",
        "AuthorizationHeaderMalformed",
        "AuthorizationQueryParametersError",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "InvalidRegion",
        "InvalidToken",
        "MethodNotAllowed",
        "NoSuchBucket",
        "PermanentRedirect",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "UnauthorizedAccess",
        "UntrustedCertificate",
    }
)
"""Refusals that last until an operator changes something."""
_PASSING = frozenset({"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"})
"""Refusals after which the same request may succeed a moment later."""
_PASSING_STATUS = frozenset({429, 500, 502, 503, 504})
_REMEDIES = {
    "InvalidAccessKeyId": "check NEKRO_S3__ACCESS_KEY or AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "check NEKRO_S3__SECRET_KEY or AWS_SECRET_ACCESS_KEY",
    "InvalidToken": "the credentials are of another time or place: make new ones",
    "AccessDenied": "the credentials need s3:ListBucket, s3:GetObject, s3:PutObject and "
    "s3:DeleteObject, and in a bucket with versions s3:GetBucketVersioning, "
    "s3:ListBucketVersions and s3:DeleteObjectVersion",
    "NoSuchBucket": "make the bucket, or check NEKRO_CLUSTER_OBJECTS",
    "RequestTimeTooSkewed": "this machine's clock is wrong: set it, and let a time service keep it",
    "PermanentRedirect": "the bucket is in another region: set NEKRO_S3__REGION",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set NEKRO_S3__REGION",
    "QuotaExceeded": "the object store is full: make room, or raise its quota",
    "InsufficientStorage": "the object store is full: make room",
}
_FULL_STATUS = 507
_BY_STATUS = {
    301: "PermanentRedirect",
    307: "TemporaryRedirect",
    400: "BadRequest",
    403: "AccessDenied",
    404: "NoSuchKey",
    405: "MethodNotAllowed",
    _FULL_STATUS: "InsufficientStorage",
}
"""The names of errors by the status of the answer, for an answer whose body names none."""


class S3Refused(ClusterUnavailable):
    """The S3 server refused a request.

    Attributes:
        code: The name of the error in S3, such as ``NoSuchBucket``.
        passing: Whether the same request may succeed a moment later.
        lasting: Whether an operator must change something first.
    """

    def __init__(self, text: str, *, code: str, status: int) -> None:
        self.code = code
        self.passing = code in _PASSING or status in _PASSING_STATUS
        self.lasting = code in _LASTING
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class ListedObject:
    """An entry of a list. ``version`` is empty in a list without versions. ``marker`` says that the
    entry stands for a deletion and has no content."""

    key: str
    version: str = ""
    marker: bool = False


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A page of a list. ``truncated`` says that more pages follow. ``next_page`` is what a request
    for the next one must contain; it is empty on the last page, and in a list of versions."""

    objects: tuple[ListedObject, ...]
    next_page: str = ""
    truncated: bool = False


def refusal(host: str, status: int, body: bytes, *, region: str = "") -> S3Refused:
    """Return the error for an answer that is no success.

    Args:
        host: The server's address, for the text.
        status: The answer's status.
        body: The answer's body, which may be cut off.
        region: The region in which the bucket is, if the server says so.
    """
    fields = _fields_of_error(body)
    code = fields.get("Code", "") or _BY_STATUS.get(status, f"status {status}")
    said = fields.get("Message", "")[:_TEXT_LENGTH]
    remedy = _REMEDIES.get(code, "") or (
        _REMEDIES["InsufficientStorage"] if status == _FULL_STATUS else ""
    )
    if (region := region or fields.get("Region", "")) and "REGION" in remedy:
        remedy = f"{remedy}={region[:64]}"
    text = f"{host} answers {code}" + (f" ({said})" if said else "")
    return S3Refused(text + (f": {remedy}" if remedy else ""), code=code, status=status)


def untrusted(host: str, error: Exception) -> S3Refused:
    """Return the error for a server whose certificate is not valid here."""
    return S3Refused(
        f"the certificate of {host} is not accepted ({error}): if an authority of your own signed "
        "it, SSL_CERT_FILE names the authority's file; else check NEKRO_S3__ENDPOINT",
        code="UntrustedCertificate",
        status=0,
    )


def read_list(body: bytes) -> ObjectList:
    """Read a page of a list of objects, or of versions. Raises `ClusterUnavailable` if the body is
    no XML."""
    found: list[ListedObject] = []
    next_page, truncated = "", False
    for element in _parsed(body):
        match _name(element):
            case "Contents" | "Version" | "DeleteMarker" as kind:
                fields = {_name(each): each.text or "" for each in element}
                key, version = unquote(fields.get("Key", "")), fields.get("VersionId", "")
                found.append(ListedObject(key, version, kind == "DeleteMarker"))
            case "NextContinuationToken":
                next_page = element.text or ""
            case "IsTruncated":
                truncated = element.text == "true"
            case _:
                pass
    return ObjectList(tuple(found), next_page, truncated)


def read_versioning(body: bytes) -> bool:
    """Return whether a bucket keeps, or once kept, earlier versions of its objects. Raises
    `ClusterUnavailable`."""
    # A bucket that never kept versions has no status.
    return any(_name(each) == "Status" and each.text for each in _parsed(body))


def _fields_of_error(body: bytes) -> dict[str, str]:
    try:
        return {_name(each): each.text or "" for each in _parsed(body)}
    except ClusterUnavailable:
        return {}  # A proxy in front of the server may answer with a page of its own.


def _parsed(body: bytes) -> Iterator[ET.Element]:
    """Yield the elements below the root of a document."""
    if b"<!DOCTYPE" in body or b"\0" in body:
        # Answers of S3 define no entities. With entities, a short answer could grow without limit.
        # A byte 0 shows an encoding such as UTF-16, in which `<!DOCTYPE` has other bytes.
        raise ClusterUnavailable("the S3 server's answer defines entities, which S3 never does")
    try:
        yield from ET.fromstring(body)  # noqa: S314 - without a document type it cannot grow
    except ET.ParseError as error:
        raise ClusterUnavailable(
            f"the S3 server's answer is no XML ({error}), it begins with {body[:80]!r}: check "
            "NEKRO_S3__ENDPOINT"
        ) from error


def _name(element: ET.Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]
