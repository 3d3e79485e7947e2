"""Names the streams and subjects of the cluster on NATS."""

from urllib.parse import quote

PARTITION_STREAM = "nekro_partitions"
"""The stream of the partitions' log."""
PARTITION_SUBJECT = "nekro.partition"
"""Followed by a partition's number."""
PRESENCE_STREAM = "nekro_workers"
"""The stream in which workers say that they live."""
PRESENCE_SUBJECT = "nekro.worker"
"""Followed by a worker's name."""
CALL_SUBJECT = "nekro.call"
"""Followed by the name that a process serves."""
CANCEL_SUBJECT = "nekro.cancel"
"""Followed by the name of a call whose caller stopped waiting."""
LEASE_STREAM = "nekro_leases"
"""The stream of the names that one process at a time may use."""
LEASE_SUBJECT = "nekro.lease"
"""Followed by such a name."""
OBJECT_BUCKET = "nekro_objects"
"""The bucket of the object store."""


def subject_of(name: str) -> str:
    """Return the part of a subject that stands for a name. Dots and wildcards are escaped."""
    return quote(name, safe="").replace(".", "%2E").replace("*", "%2A")
