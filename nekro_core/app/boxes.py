"""Builds the boxes for chats and plugins, with their network access."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from loguru import logger

from nekro_core.agent.turn.boxes import ChatBoxes, is_here
from nekro_core.app.settings import Settings
from nekro_core.app.shared_files import BoxSharing
from nekro_core.plugins.authoring.chat_network import ChatNetwork
from nekro_core.sandbox.box import BackendUnavailable, Box
from nekro_core.sandbox.egress import Egress, EgressLimits, box_environment
from nekro_core.sandbox.egress.admin import EgressAdmin, EgressTable
from nekro_core.sandbox.egress.egress import DefaultEgressSource
from nekro_core.sandbox.egress.overrides import EgressOverridesFile
from nekro_core.sandbox.preview import PreviewRegistry
from nekro_core.sandbox.supply import BoxSupply, installation_id
from nekro_core.system.telemetry.telemetry import Telemetry

CODE_BOX = "default"
"""The name of the box in which a chat's code runs."""

NETWORK_RULES = "egress.toml"
"""The file in the data folder that has the network rules of single chats and boxes."""


class NoBoxSupply:
    """Stands in for a `BoxSupply` in a process that runs no code."""

    unavailable = "this process runs no code: the workers of the cluster do"
    pool_bytes = 0
    ready = 0
    crowded = False
    packages: tuple[str, ...] = ()

    async def settled(self) -> None:
        """Return at once: there is nothing to wait for."""

    async def take(self, image: str = "") -> Box:  # noqa: ARG002 - of the protocol `BoxSource`
        """Raise `BackendUnavailable`."""
        raise BackendUnavailable(self.unavailable)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxServices:
    """The services for boxes. The code of replies runs in boxes of ``of_chats``. Plugins make boxes
    with ``for_plugins``. ``network`` fetches addresses for a chat's code; the network rules of the
    chat's box apply. ``egress`` shows and changes these rules. ``packages`` returns the names of
    the packages that code can import, besides Python's standard library. ``settled`` waits until a
    box is ready, or until it is known that this machine cannot make boxes. ``ready`` returns the
    number of boxes that are ready and belong to no chat."""

    of_chats: ChatBoxes
    for_plugins: DefaultEgressSource
    network: ChatNetwork
    egress: EgressAdmin
    packages: Callable[[], tuple[str, ...]]
    settled: Callable[[], Awaitable[None]]
    ready: Callable[[], int]

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        data: Path,
        *,
        preview: PreviewRegistry | None,
        clock: Callable[[], float],
        telemetry: Telemetry | None = None,
        runs_code: bool = True,
        sharing: BoxSharing | None = None,
        bring: Callable[[str], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Self]:
        """Open the services. If this machine cannot make boxes, this is logged and the bot runs
        without them. Without ``runs_code`` no boxes are made, because other processes run the
        code. ``sharing`` shares the files of boxes with other processes, and ``bring`` copies the
        media that they have received."""
        sharing = sharing or BoxSharing(None, None)
        sandbox = settings.nekro_sandbox
        async with AsyncExitStack() as stack:
            supply: BoxSupply | NoBoxSupply = NoBoxSupply()
            if runs_code:
                supply = await stack.enter_async_context(
                    BoxSupply.open(
                        sandbox,
                        clock=clock,
                        report=_say_no_boxes,
                        owner=installation_id(data),
                        fetch_packages=sandbox.packages,
                    )
                )
            file = data / NETWORK_RULES
            rules = EgressOverridesFile(file, sandbox.egress_rules)
            egress = await stack.enter_async_context(
                Egress.open(
                    rules.rules,
                    limits=EgressLimits(bytes_per_hour=sandbox.egress_mb * 1024 * 1024),
                    environment=box_environment(sandbox.pip_index),
                    clock=clock,
                )
            )
            egress.follow(rules.look)
            of_chats = ChatBoxes(
                supply,
                data / "boxes",
                settings.nekro_agent,
                clock=clock,
                sandbox=sandbox,
                preview=preview,
                equip=egress.attach,
                crowded=lambda: supply.crowded,
                telemetry=telemetry,
                storage=sharing.storage,
                bring=bring or is_here,
            )
            await sharing.follow_erasures(of_chats.named, data)
            yield cls(
                of_chats=of_chats,
                for_plugins=DefaultEgressSource(supply, egress),
                network=ChatNetwork(
                    rules=lambda chat: rules.rules(str(chat), CODE_BOX),
                    spend=lambda chat: egress.budget(str(chat)).spend,
                    refused=lambda chat, destination, reason: egress.refusals.add(
                        str(chat), destination, reason
                    ),
                ),
                egress=EgressAdmin(
                    file,
                    rules,
                    egress,
                    egress.refusals,
                    EgressTable(owner="", allow=sandbox.egress, private=sandbox.egress_private),
                ),
                packages=lambda: supply.packages,
                settled=supply.settled,
                ready=lambda: supply.ready,
            )


def _say_no_boxes(reason: str) -> None:
    logger.error("no code will run on this machine; `nekro doctor` says why.\n{}", reason)
