"""Makes sure that all processes of a cluster use the same object store.

A process that looks for the files of a box in another place finds none, starts the box without
files, and saves that. So the database says where the objects are, and a process whose settings say
something else does not start.
"""

from nekro_core.cluster.errors import ClusterMisconfigured
from nekro_core.cluster.s3_address import NATS_OBJECTS
from nekro_core.store.documents import DatabaseDocuments
from nekro_core.system.documents import Document, DocumentConflict, DocumentError

DOCUMENT = "cluster_objects"
"""The name of the document that says where the objects are."""
_REMEDY = (
    "If you have copied all objects while no process ran, say so in the database: "
    "DELETE FROM documents WHERE name = 'cluster_objects'"
)
_TRIES = 3
"""Maximum number of attempts. One fails if another process writes the document at this moment."""


async def agree_on_place(place: str, documents: DatabaseDocuments) -> None:
    """Compare the place of the objects with the one that the other processes use. The first process
    stores its place. A cluster may go from NATS to S3, but not back.

    Args:
        place: Where this process's settings say that the objects are: ``nats``, or
            ``s3://BUCKET/FOLDER``. The address of the server is not part of it, because processes
            may reach the same server by different names.
        documents: The documents in the database.

    Raises:
        ClusterMisconfigured: The other processes use another place.
        DocumentError: The database cannot be read or written.
    """
    for _ in range(_TRIES):
        found = await check_place(place, documents)
        if found is not None and found.text == place:
            return
        try:
            await documents.write(DOCUMENT, place, expected=found.revision if found else None)
        except DocumentConflict:
            continue
        return
    raise DocumentError(f"{DOCUMENT} in the database changes all the time")


async def check_place(place: str, documents: DatabaseDocuments) -> Document | None:
    """Compare the place of the objects with the one that the processes use, and store nothing.
    Returns the document with that place; None if no process has stored it yet. For the arguments
    and errors see `agree_on_place`."""
    found = await documents.read(DOCUMENT)
    if found is not None and found.text not in (place, NATS_OBJECTS):
        raise ClusterMisconfigured(
            f"NEKRO_CLUSTER_OBJECTS is {place}, and the files of this bot are in {found.text}: "
            f"set it as in the other processes. {_REMEDY}"
        )
    return found
