"""Does the work of a worker: owns partitions, and answers in their chats."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from fastapi import FastAPI
from loguru import logger

from nekro_core.app.app import App
from nekro_core.app.cluster.console_link import answering_consoles
from nekro_core.app.cluster.link import ClusterLink
from nekro_core.app.cluster.owned_partitions import FINISH_S, OwnedPartitions
from nekro_core.app.process_role import ProcessRole
from nekro_core.chat import ChatKey
from nekro_core.cluster.account_caller import GatewayLink, RemoteAccounts
from nekro_core.cluster.activity_feed import send_activity
from nekro_core.cluster.owner_notices import OwnerNotices
from nekro_core.cluster.partition_log import partition_of
from nekro_core.cluster.record_items import RecordPublisher
from nekro_core.store import Ownership
from nekro_core.store.ownership import ChatScope
from nekro_core.system.background_tasks import background_tasks

_END_S = FINISH_S + 6.0
"""Seconds after SIGTERM at which a worker's tasks are cancelled. A worker gives its partitions up
first; a turn that is cut off needs up to 5 s to save the files of its box."""


@dataclass(frozen=True, slots=True)
class WorkerPart:
    """Implements `ProcessPart` for a worker. It has everything that the whole bot has except
    adapters and pages."""

    link: ClusterLink
    owned: dict[int, Ownership] = field(default_factory=dict)
    connects = False
    end_s = _END_S

    @property
    def role(self) -> ProcessRole:
        """See `ProcessPart.role`."""
        return ProcessRole(
            process=self.link.node,
            chats=self.owns,
            own_accounts=True,
            leads=lambda: False,
            objects=self.link.objects,
        )

    def owns(self, chat_key: ChatKey) -> bool:
        """Return whether this worker owns a chat now."""
        return partition_of(chat_key, self.link.partitions) in self.owned

    @asynccontextmanager
    async def work(self, app: App) -> AsyncIterator[None]:
        """See `ProcessPart.work`."""
        link, io = self.link, app.message_io
        log = await link.open_log(io.store)
        gateways = GatewayLink(
            calls=link.calls,
            objects=link.objects,
            partitions=link.partitions,
            ownership=self.owned.get,
            settings=app.settings.settings.nekro_delivery,
            bring=io.media.bring,
        )
        accounts = RemoteAccounts(gateways, io.adapters, io.outbox.retry_now)
        io.outbox.owner = notices = OwnerNotices(log, self.owns, accounts.prepare, gateways.owned)

        async def end_plugin_tasks(chats: ChatScope) -> None:
            app.plugin_tasks.release(chats)

        partitions = OwnedPartitions(
            owned=self.owned,
            count=link.partitions,
            accounts=accounts,
            store=io.store,
            outbox=io.outbox,
            sessions=app.runtime.sessions,
            timers=io.timers,
            bring=io.media.bring_record,
            released=[end_plugin_tasks, app.hand_over_boxes],
        )
        await app.prepare_answers()
        async with answering_consoles(app, link, owned=self.owned), background_tasks() as tasks:
            publisher = RecordPublisher(io.inbox, log)
            tasks.start_soon(publisher.live, name="records of this worker")
            tasks.start_soon(notices.live, name="messages that other workers send")
            tasks.start_soon(accounts.watch, name="accounts whose gateways are away")
            tasks.start_soon(partitions.follow, name="timers of owned chats")
            tasks.start_soon(
                send_activity, link.connection, io.activity, name="activity for the gateways"
            )
            io.timers.start()
            app.start_watching(alerts=False)
            async with background_tasks() as owning:
                owning.start_soon(log.own, link.node, partitions.work, name="partitions")
                logger.info("worker {} is ready", link.node)
                try:
                    yield
                finally:
                    with anyio.CancelScope(shield=True):
                        await partitions.finish()

    def install(self, app: App, server: FastAPI) -> None:
        """See `ProcessPart.install`."""
        app.site.install_health(server)
