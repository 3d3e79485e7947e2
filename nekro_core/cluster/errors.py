"""Errors of the cluster.

::

    NekroError
    └── ClusterError               the base class of these errors
        ├── ClusterMisconfigured   the address or the server does not fit; waiting does not help
        ├── ClusterUnavailable     NATS does not answer now; the request may have been carried out
        ├── LogFull                a partition's log takes no more items now
        ├── LeaseTaken             another process uses the name
        ├── LeaseLost              another process has taken the name from this one
        ├── ObjectMissing          the object store has no object of this name
        │   └── ObjectDamaged      the content of an object is not what was stored
        ├── ObjectTooLarge         an object is larger than the store or the reader accepts
        └── CallError              the base class of failed calls
            ├── NobodyServes       no process serves the name; the call was certainly not made
            ├── CallTimedOut       no answer in time; the call may have been made
            ├── CallTooLarge       the request is too large; the call was not made
            │   └── AnswerTooLarge the answer is too large; the call was made
            ├── RequestNotStored   a large request could not be stored; the call was not made
            ├── ServerBusy         the process that serves the name has too many calls; this one was
            │                      not made
            └── CallFailed         the handler of the call raised an error
"""

from nekro_core.system.errors import NekroError


class ClusterError(NekroError):
    """The base class of the cluster's errors."""


class ClusterMisconfigured(ClusterError):
    """An address, a version or a setting of the server does not fit. The text says what was found
    and what was expected."""


class ClusterUnavailable(ClusterError):
    """NATS does not answer now. A request that was under way may have been carried out."""


class LogFull(ClusterError):
    """The log already holds its maximum number of items. The item was not stored."""


class LeaseTaken(ClusterError):
    """Another process holds the lease of the name. The text says which process."""


class LeaseLost(ClusterError):
    """Another process has taken the lease, because this process was suspended for too long and did
    not renew it."""


class ObjectMissing(ClusterError):
    """The object store has no object of this name."""


class ObjectDamaged(ObjectMissing):
    """The content of an object is not what was stored. Nobody can use it, so it is as good as
    missing."""


class ObjectTooLarge(ClusterError):
    """An object is larger than the store accepts, or than its reader does. Nothing was stored or
    fetched."""


class CallError(ClusterError):
    """The base class of failed calls."""


class NobodyServes(CallError):
    """No process serves this name now. The call was certainly not made."""


class CallTimedOut(CallError):
    """There was no answer in time, or the process that handled the call has ended. The call may
    have been made."""


class CallTooLarge(CallError):
    """The request is larger than `CALL_BYTES` and was not sent."""


class AnswerTooLarge(CallTooLarge):
    """The call was made, and its answer is larger than `CALL_BYTES`."""


class RequestNotStored(CallError):
    """The request is so large that it goes through the object store, and it could not be stored
    there. The call was not made."""


class ServerBusy(CallError):
    """The process that serves the name already handles its maximum number of calls. This call was
    not made."""


class CallFailed(CallError):
    """The handler of the call raised an error. The text is that of a `NekroError`; after another
    error, it says only that the call failed."""
