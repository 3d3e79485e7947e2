"""Names the streams and subjects of the cluster on NATS."""

from urllib.parse import quote

PARTITION_STREAM = "nekro_partitions"
"""The stream of the partitions' log."""
PARTITION_SUBJECT = "nekro.partition"
"""The beginning of the subjects of partitions. A partition's number follows."""
PRESENCE_STREAM = "nekro_workers"
"""The stream in which each worker reports that it lives."""
PRESENCE_SUBJECT = "nekro.worker"
"""The beginning of the subjects of workers. A worker's name follows."""
CALL_SUBJECT = "nekro.call"
"""The beginning of the subjects of calls. The name that a process serves follows."""
CANCEL_SUBJECT = "nekro.cancel"
"""The beginning of the subjects on which callers cancel calls. The served name follows."""
WORKER_CALL_SUBJECT = "nekro.worker_call"
"""The beginning of the subjects on which gateways call one worker. The worker's name follows."""
WORKER_CANCEL_SUBJECT = "nekro.worker_cancel"
"""The beginning of the subjects on which gateways cancel these calls."""
GATEWAY_CALL_SUBJECT = "nekro.gateway_call"
"""The beginning of the subjects on which gateways call one gateway. The gateway's name follows."""
GATEWAY_CANCEL_SUBJECT = "nekro.gateway_cancel"
"""The beginning of the subjects on which gateways cancel these calls."""
ACTIVITY_SUBJECT = "nekro.activity"
"""The subject on which workers tell gateways what is new in chats."""
LEASE_STREAM = "nekro_leases"
"""The stream of the leases, that is, of the names that only one process at a time may use."""
LEASE_SUBJECT = "nekro.lease"
"""The beginning of the subjects of leases. The name of the lease follows."""
OBJECT_BUCKET = "nekro_objects"
"""The name of the bucket of JetStream's object store."""
OBJECT_STREAM = f"OBJ_{OBJECT_BUCKET}"
"""The stream in which JetStream stores the objects of the bucket."""


def subject_of(name: str) -> str:
    """Return the part of a subject that stands for a name. Dots and wildcards are escaped."""
    return quote(name, safe="").replace(".", "%2E").replace("*", "%2A")
