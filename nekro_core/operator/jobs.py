"""Runs long actions in the background, with progress, and lets an operator cancel them."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import anyio
from anyio.abc import TaskGroup
from loguru import logger
from pydantic_core import to_jsonable_python

from nekro_core.operator.actions import Area, BoundAction, action, query
from nekro_core.operator.audit import AuditLog, Change, Done
from nekro_core.operator.errors import NoSuchItem, NotAllowed, OperatorError
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.system.errors import NekroError

MAX_KEPT = 100
"""Number of ended jobs that stay in the list."""

MAX_RUNNING = 32
"""Maximum number of jobs that run at once. Usually a person has only a few."""


class JobState(StrEnum):
    """The states of a job."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A long action as an operator sees it.

    Attributes:
        job_id: The job's number.
        action: The action's full name.
        actor: Who started it.
        parameters: The parameters with which it was started, as JSON values. Secrets are replaced
            by stars.
        state: The state.
        text: What happens now, or the error, in English.
        code: A stable word for what happens now; empty for an error.
        values: The values that are filled into the text of the console.
        done: How much is done, in any unit.
        total: How much there is to do, in the same unit; 0 if this is not known.
        started: Seconds since 1970.
        ended: Seconds since 1970; 0 while it runs.
        result: What the action returned.
    """

    job_id: int
    action: str
    actor: str
    parameters: Mapping[str, Any]
    state: JobState
    text: str
    done: float
    total: float
    started: float
    ended: float
    result: Any = None
    code: str = ""
    values: Mapping[str, str | float] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class RunningJob:
    """One long action. It is the `Progress` of its action."""

    job_id: int
    action: str
    actor: Actor
    parameters: Mapping[str, Any]
    started: float
    state: JobState = JobState.RUNNING
    text: str = ""
    code: str = ""
    values: Mapping[str, str | float] = field(default_factory=dict)
    done: float = 0.0
    total: float = 0.0
    ended: float = 0.0
    outcome: Done[Any] | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    finished: anyio.Event = field(default_factory=anyio.Event)

    def report(
        self,
        text: str,
        *,
        done: float = 0.0,
        total: float = 0.0,
        code: str = "",
        **values: str | float,
    ) -> None:
        """See `Progress.report`."""
        self.text, self.done, self.total = text, done, total
        self.code, self.values = code, values

    def view(self) -> JobView:
        """Return the job's present state."""
        return JobView(
            job_id=self.job_id,
            action=self.action,
            actor=self.actor.name,
            parameters=self.parameters,
            state=self.state,
            text=self.text,
            code=self.code,
            values=self.values,
            done=self.done,
            total=self.total,
            started=self.started,
            ended=self.ended,
            result=self.outcome.result if self.outcome else None,
        )


class Jobs(Area):
    """The long actions that run now, and those that ended last.

    Args:
        audit: The audit log.
        tasks: The task group in which the actions run.
        wall: Returns the current time, in seconds since 1970.
    """

    name = "jobs"

    def __init__(self, audit: AuditLog, tasks: TaskGroup, wall: Callable[[], float]) -> None:
        super().__init__(audit)
        self._tasks = tasks
        self._wall = wall
        self._jobs: OrderedDict[int, RunningJob] = OrderedDict()
        self._last = 0

    def start(
        self, operation: BoundAction[..., Any], actor: Actor, parameters: Mapping[str, Any]
    ) -> RunningJob:
        """Start a long action in the background.

        Args:
            operation: The action.
            actor: Who asks for it.
            parameters: The parameters by name.

        Returns:
            The job, which runs now.

        Raises:
            NotAllowed: The actor may not call the action. The audit log says that it was denied.
            InvalidParameters: A parameter is wrong.
            OperatorError: Too many jobs run.
        """
        try:
            operation.check_role(actor)
        except NotAllowed as error:
            self._tasks.start_soon(self._deny, operation.full_name, actor, str(error))
            raise
        shown = to_jsonable_python(operation.validate(parameters), fallback=str)
        if sum(job.state is JobState.RUNNING for job in self._jobs.values()) >= MAX_RUNNING:
            raise OperatorError(
                f"{MAX_RUNNING} long actions run already: wait for one, or cancel one"
            )
        self._last += 1
        job = RunningJob(self._last, operation.full_name, actor, shown, self._wall())
        self._jobs[job.job_id] = job
        self._forget_old()
        self._tasks.start_soon(self._run, job, operation, parameters)
        return job

    def running(self, action: str, **parameters: Any) -> RunningJob | None:
        """Find a long action that runs, for a page that shows its progress.

        Args:
            action: The action's full name.
            parameters: Some of the parameters with which the action was started.

        Returns:
            The newest job of this action with these parameters; None if none runs.
        """
        wanted = to_jsonable_python(parameters, fallback=str).items()
        for job in reversed(self._jobs.values()):
            is_wanted = job.action == action and all(
                job.parameters.get(name) == value for name, value in wanted
            )
            if is_wanted and job.state is JobState.RUNNING:
                return job
        return None

    @query(role=AccessRole.VIEWER)
    async def newest(self, actor: Actor) -> list[JobView]:  # noqa: ARG002 - all operators see all jobs
        """List the long actions that run, and those that ended last, newest first."""
        return [job.view() for job in reversed(self._jobs.values())]

    @query(role=AccessRole.VIEWER)
    async def one(self, actor: Actor, *, job_id: int) -> JobView:  # noqa: ARG002
        """Get the state of a long action.

        Args:
            job_id: The job's number.
        """
        return self._found(job_id).view()

    @action(role=AccessRole.OPERATOR)
    async def cancel(self, actor: Actor, *, job_id: int) -> Change[JobView]:
        """Cancel a long action that runs. The action's description says whether its changes so far
        stay.

        Args:
            job_id: The job's number.
        """
        job = self._found(job_id)
        # People may cancel their own jobs, and jobs of people whose role is not higher than theirs.
        if not actor.role.allows(job.actor.role) and actor.name != job.actor.name:
            raise NoSuchItem(f"job {job_id} was started by a person with a higher role")
        before = job.state
        job.scope.cancel()
        await job.finished.wait()
        return Change(result=job.view(), subject=str(job_id), old=before, new=job.state)

    async def _deny(self, name: str, actor: Actor, text: str) -> None:
        try:
            await self.audit_log.denied(actor, name, text)
        except NekroError as error:
            logger.error("the audit log has no entry of a denied {}: {}", name, error)

    def _found(self, job_id: int) -> RunningJob:
        if job_id not in self._jobs:
            raise NoSuchItem(f"there is no job {job_id}; it may have ended long ago")
        return self._jobs[job_id]

    async def _run(
        self, job: RunningJob, operation: BoundAction[..., Any], parameters: Mapping[str, Any]
    ) -> None:
        try:
            with job.scope:
                job.outcome = await operation.invoke(job.actor, parameters, job)
            job.state = JobState.CANCELLED if job.scope.cancelled_caught else JobState.DONE
        except NekroError as error:
            job.state, job.text, job.code = JobState.FAILED, str(error), ""
        except Exception as error:  # noqa: BLE001 - one failed job must not end the others
            logger.exception("{} failed", job.action)
            job.state, job.code = JobState.FAILED, ""
            job.text = f"{type(error).__name__}: {error}"
        finally:
            job.ended = self._wall()
            if job.state is JobState.RUNNING:
                job.state = JobState.CANCELLED
            job.finished.set()

    def _forget_old(self) -> None:
        ended = [job.job_id for job in self._jobs.values() if job.state is not JobState.RUNNING]
        for job_id in ended[: max(0, len(ended) - MAX_KEPT)]:
            del self._jobs[job_id]
