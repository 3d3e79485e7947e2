"""Settings of this room: ``NEKRO_SANDBOX__...``."""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nekro_core.sandbox.box import BoxSpec, RunLimits
from nekro_core.sandbox.egress.rules import EgressRules

_MIB = 1024 * 1024


class BackendName(StrEnum):
    """Names what makes the boxes."""

    AUTO = "auto"
    """The first backend that passes its own self-check."""
    JAIL = "jail"
    DOCKER = "docker"


class SandboxSettings(BaseModel):
    """How boxes are made and what limits them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: BackendName = BackendName.AUTO
    default_image: str = "python"
    """The image of a box that is created by its first use."""
    images: dict[str, str] = {}
    """More names for images. Each requested name maps to the backend's image that is used for it.
    Nothing checks that a mapping such as ``{"python:3.12": "python"}`` is true."""
    boxes_per_chat: int = Field(default=16, ge=1, le=256)
    """Named boxes that one chat may have, running or sleeping."""
    command_seconds: float = Field(default=110.0, gt=0)
    """Longest time that a call of the tool ``shell`` may ask for. In chats, the time limit of tools
    (``NEKRO_PLUGIN__TOOL_S``) also ends a command."""
    egress: tuple[str, ...] = ()
    """The addresses that boxes may reach: ``example.org`` or ``*.example.org``, with ``:port`` or
    on ports 80 and 443. ``*`` means every public name. Empty: boxes have no network at all."""
    egress_private: tuple[str, ...] = ()
    """The same, but also at addresses that are not public: the operator's own servers."""
    egress_mb: int = Field(default=1024, ge=1)
    """MB that the boxes of one chat may send and receive in an hour, both ways together."""
    pip: bool | None = None
    """Whether the jail's boxes have pip; unset: only if ``egress`` or ``egress_private`` is set."""
    pip_index: str = ""
    """The index that pip uses in boxes; unset: pip's own. Its address must be allowed."""
    pool_size: int | None = Field(default=None, ge=0, le=64)
    """Boxes that are ready before a chat needs them; unset: as many as memory allows, one to four.
    Each costs about 9 MB."""
    idle_memory_mb: int = Field(default=256, ge=0)
    """Memory in MB that all boxes not used by a turn may have together: the boxes of all chats (4
    to 6 MB each, and their files) and the ready boxes of the pool. Above it, the box unused longest
    ends. Its files are saved, and the next code of its chat waits for a new box."""
    memory_mb: int = Field(default=512, ge=64)
    """Limit of a box's whole process tree."""
    disk_mb: int = Field(default=256, ge=8)
    """Limit of ``/home/user``, a tmpfs in memory; ``/tmp`` has a quarter of it in addition."""
    total_memory_mb: int | None = Field(default=None, ge=128)
    """Limit of all boxes together, with their files; unset: half of the machine's memory."""
    total_stored_mb: int | None = Field(default=None, ge=1)
    """Limit of the stored files of all chats' boxes; unset: half of the disk that holds them."""
    total_wait_seconds: float = Field(default=30.0, ge=0)
    """How long new work waits for room among all boxes before it is refused."""
    uploads_mb: int = Field(default=1024, ge=1)
    """Limit of the files that people sent, in all running boxes together. Each box has its own
    copies, usually in memory. The jail uses at most a quarter of the free space of its runtime
    folder's file system."""
    processes: int = Field(default=64, ge=8)
    run_seconds: float = Field(default=60.0, gt=0)
    """Limit of a run's own time. Waiting for the model and for tools does not count."""
    output_kb: int = Field(default=256, ge=1)
    calls: int = Field(default=1000, ge=1)
    """Tool calls of one run."""
    value_mb: int = Field(default=16, ge=1)
    """Limit of one call's arguments, and of one result."""
    processors: float = Field(default=1.0, gt=0)
    """Processors that a box may keep busy at once. Only the docker backend uses it. The jail's
    boxes have half the share of other processes."""
    docker_host: str = ""
    """Address of the docker backend's engine; unset: as ``DOCKER_HOST`` and related ones say."""
    rest_seconds: float = Field(default=60.0, ge=0)
    """After so many idle seconds, a box of the jail that was used restarts its interpreter: 4 MB
    instead of 6. The code of the next run then starts after 9 ms instead of 3. 0: never."""
    uid_start: int | None = None
    """First user id for boxes, if the host is root; unset: the highest ids that fit."""
    uid_count: int = Field(default=50_000, ge=1)
    interpreter: Path | None = None
    """The Python that boxes run; unset: the system's. Any user must be able to read its folder."""
    runtime_dir: Path | None = None
    """Folder for the files that boxes need while the bot runs. It must allow execution."""

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
        """Whether boxes have pip. By default only boxes with egress rules have it."""
        return bool(self.egress_rules) if self.pip is None else self.pip

    @property
    def egress_rules(self) -> EgressRules:
        """The addresses that every box may reach by these settings."""
        return EgressRules.parse(self.egress, self.egress_private)

    @property
    def total_memory_bytes(self) -> int:
        """Memory limit of all boxes together; 0 for a share of the machine."""
        return (self.total_memory_mb or 0) * _MIB

    @property
    def total_stored_bytes(self) -> int:
        """Limit of all boxes' stored files; 0 for a share of the disk."""
        return (self.total_stored_mb or 0) * _MIB

    @property
    def uploads_bytes(self) -> int:
        """Limit of the uploads of all boxes together."""
        return self.uploads_mb * _MIB

    @property
    def spec(self) -> BoxSpec:
        """The box that these settings describe."""
        return BoxSpec(
            template=self.images.get(self.default_image, self.default_image),
            memory_bytes=self.memory_mb * _MIB,
            disk_bytes=self.disk_mb * _MIB,
            processes=self.processes,
        )

    @property
    def limits(self) -> RunLimits:
        """The bounds of one run that these settings describe."""
        return RunLimits(
            seconds=self.run_seconds,
            output_bytes=self.output_kb * 1024,
            calls=self.calls,
            value_bytes=self.value_mb * _MIB,
        )
