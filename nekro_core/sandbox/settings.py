"""Settings of the sandbox: ``NEKRO_SANDBOX__...``."""

from enum import StrEnum
from pathlib import Path

from pydantic import Field, field_validator

from nekro_core.sandbox.box import BoxSpec, RunLimits
from nekro_core.sandbox.egress.rules import EgressRules
from nekro_core.system.live_settings import LiveSettings

_MIB = 1024 * 1024


class BackendName(StrEnum):
    """The names of the backends."""

    AUTO = "auto"
    """The first backend that passes its self-check."""
    JAIL = "jail"
    DOCKER = "docker"


class SandboxSettings(LiveSettings):
    """How boxes are made and what limits them."""

    backend: BackendName = BackendName.AUTO
    """What makes the boxes."""
    default_image: str = "python"
    """The image of a box, if its creator names no image."""
    images: dict[str, str] = Field(default_factory=dict)
    """More names for images: each key is such a name, its value is the backend's image. A mapping
    such as ``{"python:3.12": "python"}`` is not checked: the image can have another version."""
    boxes_per_chat: int = Field(default=16, ge=1, le=256)
    """Named boxes that one chat may have, running or sleeping."""
    command_seconds: float = Field(default=110.0, gt=0)
    """Largest timeout that a call of the tool ``shell`` may set. In chats, the time limit of tools
    (``NEKRO_PLUGIN__TOOL_S``) also ends a command."""
    egress: tuple[str, ...] = ()
    """The addresses that boxes may reach: ``example.org`` or ``*.example.org``, with ``:port``, or
    without a port for the ports 80 and 443. ``*`` means every public name. If ``egress_private`` is
    empty too, boxes have no network at all."""
    egress_private: tuple[str, ...] = ()
    """More addresses that boxes may reach. These names may also resolve to private addresses: they
    are for the operator's own servers."""
    egress_mb: int = Field(default=1024, ge=1)
    """MB that the boxes of one chat may send and receive in an hour, both directions together."""
    pip: bool | None = None
    """Whether the jail's boxes have pip; unset: only if ``egress`` or ``egress_private`` is set."""
    pip_index: str = ""
    """The package index that pip uses in boxes; unset: pip's default. ``egress`` or
    ``egress_private`` must allow its address."""
    packages: bool = True
    """Whether boxes get numpy, pandas, matplotlib and other packages, which the bot fetches once
    with pip (80 MB)."""
    packages_dir: Path | None = None
    """Folder for these packages; unset: below ``/var/lib`` for root, else below ``/var/tmp``. Any
    user must be able to read it. With the docker backend, the packages are here only until they are
    in a volume of the engine."""
    pool_size: int | None = Field(default=None, ge=0, le=64)
    """Boxes that are made before a chat needs them; unset: one to four, depending on free memory.
    Each needs about 9 MB of memory."""
    idle_memory_mb: int = Field(default=256, ge=0)
    """Memory in MB that all idle boxes may have together: the boxes of all chats (4 to 6 MB each,
    and their files) and the ready boxes of the pool. Above this limit, the box unused longest is
    ended. Its files are saved, and the next code of its chat waits for a new box."""
    memory_mb: int = Field(default=512, ge=64)
    """Limit of all processes of a box together."""
    disk_mb: int = Field(default=256, ge=8)
    """Limit of ``/home/user``, which is a tmpfs in memory. ``/tmp`` may have a quarter of this size
    in addition."""
    total_memory_mb: int | None = Field(default=None, ge=128)
    """Limit of the memory of all boxes together, including their files; unset: half of the
    machine's memory."""
    total_stored_mb: int | None = Field(default=None, ge=1)
    """Limit of the stored files of all chats' boxes; unset: half of the disk that holds them."""
    total_wait_seconds: float = Field(default=30.0, ge=0)
    """Longest wait of new work while all boxes together use too much memory. After this time the
    work is refused."""
    uploads_mb: int = Field(default=1024, ge=1)
    """Limit of the files that people sent, in all running boxes together. Each box has its own
    copies, usually in memory. In the jail, the limit is also at most a quarter of the free space of
    the file system that has the runtime folder."""
    processes: int = Field(default=64, ge=8)
    """Limit of the processes and threads of a box."""
    run_seconds: float = Field(default=60.0, gt=0)
    """Limit of a run's time. The time in which it waits for the model or for tools does not
    count."""
    output_kb: int = Field(default=256, ge=1)
    """Limit of a run's output in KB."""
    calls: int = Field(default=1000, ge=1)
    """Limit of the tool calls of one run."""
    value_mb: int = Field(default=16, ge=1)
    """Limit of the arguments of one call together, and of one result."""
    processors: float = Field(default=1.0, gt=0)
    """Processors that a box may keep busy at once. Only the docker backend uses this setting. The
    jail's boxes get half the processor time that other processes get."""
    docker_host: str = ""
    """Address of the Docker engine; unset: from ``DOCKER_HOST`` and related variables."""
    rest_seconds: float = Field(default=60.0, ge=0)
    """After this many idle seconds, a used box of the jail restarts its interpreter. The box then
    needs 4 MB instead of 6, and the code of its next run starts after 9 ms instead of 3. 0: no
    restart."""
    uid_start: int | None = None
    """First user id for boxes, if the bot runs as root: 100000 or more, if there are such ids;
    unset: the highest ids that are available."""
    uid_count: int = Field(default=50_000, ge=1)
    """Number of user ids for boxes, from ``uid_start`` on."""
    interpreter: Path | None = None
    """The Python of the boxes; unset: the system's. Any user must be able to read its folder."""
    runtime_dir: Path | None = None
    """Folder for the files that boxes need while the bot runs. Its file system must allow
    execution."""

    @field_validator("egress")
    @classmethod
    def _readable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        EgressRules.parse(value)
        return value

    @field_validator("egress_private")
    @classmethod
    def _readable_private(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        EgressRules.parse((), value)
        return value

    @property
    def has_pip(self) -> bool:
        """Return True if boxes have pip. By default only boxes with egress rules have it."""
        return bool(self.egress_rules) if self.pip is None else self.pip

    @property
    def egress_rules(self) -> EgressRules:
        """The addresses that these settings allow every box to reach."""
        return EgressRules.parse(self.egress, self.egress_private)

    @property
    def total_memory_bytes(self) -> int:
        """Memory limit of all boxes together; 0 means half of the machine's memory."""
        return (self.total_memory_mb or 0) * _MIB

    @property
    def total_stored_bytes(self) -> int:
        """Limit of the stored files of all boxes; 0 means half of the disk."""
        return (self.total_stored_mb or 0) * _MIB

    @property
    def uploads_bytes(self) -> int:
        """Limit of the uploads of all boxes together."""
        return self.uploads_mb * _MIB

    @property
    def spec(self) -> BoxSpec:
        """The kind of box that these settings describe."""
        return BoxSpec(
            template=self.images.get(self.default_image, self.default_image),
            memory_bytes=self.memory_mb * _MIB,
            disk_bytes=self.disk_mb * _MIB,
            processes=self.processes,
        )

    @property
    def limits(self) -> RunLimits:
        """The limits of one run that these settings describe."""
        return RunLimits(
            seconds=self.run_seconds,
            output_bytes=self.output_kb * 1024,
            calls=self.calls,
            value_bytes=self.value_mb * _MIB,
        )
