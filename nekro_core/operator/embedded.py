"""Shows the embedded model, and downloads and chooses its files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nekro_core.llm.embedded.library import (
    MachineMemory,
    ModelFile,
    ModelFiles,
    machine_memory,
)
from nekro_core.llm.embedded.model import EmbeddedState
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.embedded.weights import DownloadProgress
from nekro_core.operator.actions import NO_PROGRESS, Area, Progress, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import InvalidParameters
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.operator.settings import SettingsBook, written


class EmbeddedInForce(Protocol):
    """The embedded model of the running bot (`nekro_core.app.models.ModelRegistry`)."""

    @property
    def embedded(self) -> EmbeddedSettings:
        """The settings of the embedded model."""

    @property
    def embedded_state(self) -> EmbeddedState | None:
        """The state of the embedded model; None if it is not the default model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsView:
    """A model file for the embedded model.

    Attributes:
        file: The file.
        memory: The least number of bytes that the model needs, with the present size of the
            context; 0 if this is not known.
        fits: Whether the machine has this much memory left; None if it is not known.
        chosen: Whether it is the file that the settings name.
    """

    file: ModelFile
    memory: int
    fits: bool | None
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedView:
    """The embedded model.

    Attributes:
        state: What it is doing; None if it is not the default model.
        chosen: The path of the operator's own file; empty for one of the bot's models.
        context_tokens: The size of its context, in tokens.
        memory: The memory of the machine.
        weights: The files that can be chosen.
    """

    state: EmbeddedState | None
    chosen: str
    context_tokens: int
    memory: MachineMemory
    weights: tuple[WeightsView, ...]


class Embedded(Area):
    """The embedded model.

    Args:
        audit: The audit log.
        models: The model in force.
        files: The model files.
        book: Writes the settings.
    """

    name = "embedded"

    def __init__(
        self,
        audit: AuditLog,
        models: EmbeddedInForce,
        files: ModelFiles,
        book: SettingsBook,
    ) -> None:
        super().__init__(audit)
        self._models = models
        self._files = files
        self._book = book

    @query(role=AccessRole.VIEWER)
    async def show(self, actor: Actor) -> EmbeddedView:  # noqa: ARG002
        """Show the embedded model: its state, its memory, and the files that can be chosen."""
        settings, memory, files = self._models.embedded, machine_memory(), self._files
        chosen = settings.model_file
        weights = []
        for file in await files.all():
            needed = file.info.memory(settings.context_tokens) if file.info else 0
            weights.append(
                WeightsView(
                    file=file,
                    memory=needed,
                    fits=needed <= memory.available if needed and memory.available else None,
                    chosen=chosen is not None and chosen.name == file.name and files.has(chosen),
                )
            )
        return EmbeddedView(
            state=self._models.embedded_state,
            chosen=str(chosen or ""),
            context_tokens=settings.context_tokens,
            memory=memory,
            weights=tuple(weights),
        )

    @query(role=AccessRole.VIEWER)
    async def state(self, actor: Actor) -> EmbeddedState | None:  # noqa: ARG002
        """Say what the embedded model is doing; nothing if it is not the default model."""
        return self._models.embedded_state

    @action(role=AccessRole.OPERATOR)
    async def download(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        url: str,
        file: str = "",
        sha256: str = "",
        progress: Progress = NO_PROGRESS,
    ) -> Change[str]:
        """Download a model file for the embedded model. If the download is cancelled or breaks off,
        the same call continues where it stopped.

        Args:
            url: The address of a GGUF file.
            file: The name of the file; empty to use the name in the address.
            sha256: The SHA-256 that the file must have; empty to check it against the hash that the
                server sends, if any.
        """
        path = await self._files.download(url, _reporter(progress), name=file, sha256=sha256)
        undo = UndoCall(action="embedded.remove", parameters={"file": path.name})
        return Change(result=path.name, subject=path.name, undo=undo)

    @action(role=AccessRole.OWNER)
    async def copy(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        path: Path,
        sha256: str = "",
        progress: Progress = NO_PROGRESS,
    ) -> Change[str]:
        """Copy a model file of this machine into the bot's folder.

        Args:
            path: The file.
            sha256: The SHA-256 that the file must have; empty if it is not checked.
        """
        made = await self._files.copy(path, _reporter(progress), sha256=sha256)
        undo = UndoCall(action="embedded.remove", parameters={"file": made.name})
        return Change(result=made.name, subject=made.name, undo=undo)

    @action(role=AccessRole.OPERATOR, destructive=True)
    async def remove(self, actor: Actor, *, file: str) -> Change[None]:  # noqa: ARG002
        """Delete a model file, even if it is only partly downloaded.

        Args:
            file: The name of the file.
        """
        chosen = self._models.embedded.model_file
        if chosen is not None and chosen.name == file:
            raise InvalidParameters(
                {"file": "the embedded model uses it: choose another one first"}
            )
        await self._files.remove(file)
        return Change(result=None, subject=file)

    @action(role=AccessRole.OPERATOR)
    async def use(self, actor: Actor, *, file: str = "") -> Change[None]:  # noqa: ARG002
        """Choose the file of the embedded model. The old model finishes its running requests; the
        next request loads the new model.

        Args:
            file: The name of the file; empty for the bot's own model.
        """
        old = self._models.embedded.model_file
        path = str(self._files.path(file)) if file else None
        await written(self._book.set({"embedded.model_file": path}))
        undo = None
        if old is None or self._files.has(old):
            parameters = {"file": old.name if old else ""}
            undo = UndoCall(action="embedded.use", parameters=parameters)
        return Change(
            result=None, subject="embedded", old=str(old or ""), new=path or "", undo=undo
        )


def _reporter(progress: Progress) -> Callable[[DownloadProgress], None]:
    def report(step: DownloadProgress) -> None:
        code = step.stage and f"weights_{step.stage}"
        progress.report(step.what, done=step.done, total=step.total, code=code, name=step.name)

    return report
