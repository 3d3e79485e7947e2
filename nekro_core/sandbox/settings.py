"""Settings of this room: ``NEKRO_SANDBOX__...``."""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nekro_core.sandbox.box import BoxSpec, RunLimits
from nekro_core.sandbox.egress.rules import EgressRules

_MIB = 1024 * 1024


class BackendName(StrEnum):
    """What makes the boxes."""

    AUTO = "auto"
    """The first that passes its own self-check."""
    JAIL = "jail"
    DOCKER = "docker"


class SandboxSettings(BaseModel):
    """How boxes are made and what bounds them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: BackendName = BackendName.AUTO
    default_image: str = "python"
    """What a box is made from that comes into being by its first use."""
    images: dict[str, str] = {}
    """Further names for images: what is asked for, and the backend's image that it gets. A
    ``{"python:3.12": "python"}`` promises nothing but what the operator knows."""
    boxes_per_chat: int = Field(default=16, ge=1, le=256)
    """Named boxes that one chat may have, asleep or not."""
    command_seconds: float = Field(default=110.0, gt=0)
    """Longest command that the tool ``shell`` may be asked for. In chats a tool's own longest time
    (``NEKRO_PLUGIN__TOOL_S``) ends it besides."""
    egress: tuple[str, ...] = ()
    """What boxes may reach besides themselves: ``example.org``, ``*.example.org``, with ``:port``
    or on ports 80 and 443; ``*`` is every public name. Empty: boxes have no network at all."""
    egress_private: tuple[str, ...] = ()
    """The same, at addresses that are not public too: servers of the operator's own."""
    egress_mb: int = Field(default=1024, ge=1)
    """What the boxes of one chat may carry in an hour, both ways together."""
    pip: bool | None = None
    """Whether the jail's boxes have pip; unset: where ``egress`` or ``egress_private`` is set."""
    pip_index: str = ""
    """The address of the index that pip asks in boxes; unset: pip's own. It must be allowed."""
    pool_size: int | None = Field(default=None, ge=0, le=64)
    """Ready boxes that wait for a chat; unset: as many as memory allows, one to four. Each costs
    about 9 MB."""
    idle_memory_mb: int = Field(default=256, ge=0)
    """Memory in MB that boxes may use together while no turn uses them: the kept ones of all chats
    (4 to 6 MB each, and their files) and the ready ones of the pool. Over it the box unused longest
    ends; its files are saved, and its chat's next code waits for a new box."""
    memory_mb: int = Field(default=512, ge=64)
    """Of a box's whole process tree."""
    disk_mb: int = Field(default=256, ge=8)
    """Of ``/home/user``; ``/tmp`` has a quarter of it besides. It is memory: a tmpfs."""
    total_memory_mb: int | None = Field(default=None, ge=128)
    """Of all boxes together, their files included; unset: half of the machine's memory."""
    total_stored_mb: int | None = Field(default=None, ge=1)
    """Of the stored files of all chats' boxes; unset: half of the disk that they lie on."""
    total_wait_seconds: float = Field(default=30.0, ge=0)
    """How long new work waits for room among all boxes before it is refused."""
    uploads_mb: int = Field(default=1024, ge=1)
    """Of the files that people sent, in all running boxes together: each box has copies of its
    own, which are memory as a rule. The jail takes at most a quarter of what is free where it lays
    them out."""
    processes: int = Field(default=64, ge=8)
    run_seconds: float = Field(default=60.0, gt=0)
    """Of a run's own time; waiting for the model and for tools does not count."""
    output_kb: int = Field(default=256, ge=1)
    calls: int = Field(default=1000, ge=1)
    """Tool calls of one run."""
    value_mb: int = Field(default=16, ge=1)
    """Of one call's arguments, or of one result."""
    processors: float = Field(default=1.0, gt=0)
    """That a box may keep busy at once; the docker backend's (the jail's boxes have half the share
    of everything else)."""
    docker_host: str = ""
    """Where the docker backend finds its engine; unset: as ``DOCKER_HOST`` and its kin say."""
    rest_seconds: float = Field(default=60.0, ge=0)
    """A box of the jail that was used and then waits so long starts its interpreter anew: 4 MB
    instead of 6. The next run's code begins 9 ms after it came, instead of 3. 0: never."""
    uid_start: int | None = None
    """Where the host is root, each box gets a user id from here on; unset: the highest that fit."""
    uid_count: int = Field(default=50_000, ge=1)
    interpreter: Path | None = None
    """The Python that boxes run; unset: the system's. Its folder must be readable by anyone."""
    runtime_dir: Path | None = None
    """Where what boxes need is laid out while the bot runs; must allow execution."""

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
        """Whether boxes have pip: it is of use only where something can be reached."""
        return bool(self.egress_rules) if self.pip is None else self.pip

    @property
    def egress_rules(self) -> EgressRules:
        """What these settings let every box reach."""
        return EgressRules.parse(self.egress, self.egress_private)

    @property
    def total_memory_bytes(self) -> int:
        """Of all boxes together; 0 for a share of the machine."""
        return (self.total_memory_mb or 0) * _MIB

    @property
    def total_stored_bytes(self) -> int:
        """Of all boxes' stored files; 0 for a share of the disk."""
        return (self.total_stored_mb or 0) * _MIB

    @property
    def uploads_bytes(self) -> int:
        """What the uploads of all boxes may hold together."""
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
