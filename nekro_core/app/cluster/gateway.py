"""Does the work of a gateway: stores what platforms bring, tells the workers of it, and makes the
platform calls of the workers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from fastapi import FastAPI
from loguru import logger

from nekro_core.app.app import App
from nekro_core.app.cluster.console_link import answering_consoles
from nekro_core.app.cluster.gateway_accounts import GatewayAccounts
from nekro_core.app.cluster.leadership import Leadership
from nekro_core.app.cluster.link import ClusterLink
from nekro_core.app.process_role import ProcessRole
from nekro_core.chat import ChatKey
from nekro_core.cluster.account_server import AccountServer
from nekro_core.cluster.activity_feed import ActivityReceiver
from nekro_core.cluster.owner_notices import OwnerNotices
from nekro_core.cluster.record_items import RecordPublisher
from nekro_core.system.background_tasks import background_tasks

_SCRATCH = "outgoing"
"""The folder in the data folder for media while they are sent."""
_CALLS_S = 2.0
"""When a gateway ends, the platform calls that it makes for workers have this many seconds to end.
It makes no others. It is not known whether the message of a call that was cut off has arrived."""
_DRAIN_S = 1.5
"""After its platform calls, a gateway that ends has this many seconds in which its adapters store
what they have received, and the workers are told of it. Other stored records are found when the
owners of the partitions look for unanswered records."""
_END_S = _CALLS_S + _DRAIN_S + 1.0
"""Seconds after SIGTERM at which a gateway's tasks are cancelled. One second is for the rest."""


def no_chat(_: ChatKey) -> bool:
    """Return False: a gateway takes care of no chat."""
    return False


@dataclass(frozen=True, slots=True)
class GatewayPart:
    """Implements `ProcessPart` for a gateway.

    A gateway has everything that the whole bot has except sessions with turns, boxes and timers. So
    its plugins, commands and pages are known: it can tell which messages are commands, and serve
    webhooks and the console. What plugins store as records goes to the workers.
    """

    link: ClusterLink
    leadership: Leadership
    connects = True
    end_s = _END_S

    @property
    def role(self) -> ProcessRole:
        """See `ProcessPart.role`."""
        return ProcessRole(
            process=self.link.node,
            chats=no_chat,
            runs_code=False,
            own_accounts=True,
            leads=self.leadership,
            objects=self.link.objects,
        )

    @asynccontextmanager
    async def work(self, app: App) -> AsyncIterator[None]:
        """See `ProcessPart.work`."""
        link, store = self.link, app.message_io.store
        log = await link.open_log(store)
        server = AccountServer(
            name=link.node,
            leases=link.leases,
            calls=link.calls,
            objects=link.objects,
            store=store,
            adapters=app.message_io.adapters,
            partitions=link.partitions,
            scratch=app.host.data_dir / _SCRATCH,
            settings=app.settings.settings.nekro_delivery,
        )
        notices = OwnerNotices(log, no_chat)
        app.message_io.outbox.owner = notices
        accounts = GatewayAccounts(
            server, app.started_adapters, app.account_problems, app.served_accounts
        )
        app.host.account_used = accounts.used
        await app.finish_restore()
        async with answering_consoles(app, link, owned={}), background_tasks() as tasks:
            publisher = RecordPublisher(app.message_io.inbox, log)
            tasks.start_soon(publisher.live, name="records to the workers")
            tasks.start_soon(notices.live, name="messages that workers send")
            tasks.start_soon(link.keeper(log).live, name="streams of NATS")
            tasks.start_soon(accounts.live, name="accounts for the workers")
            shown = ActivityReceiver(link.connection, store, app.message_io.activity)
            tasks.start_soon(shown.live, name="activity of the workers")
            tasks.start_soon(self.leadership.live, name="work of no chat")
            await app.start_adapters()
            app.start_watching()
            logger.info("gateway {} is ready", link.node)
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    if not await server.running.finish(_CALLS_S):
                        logger.warning("the gateway ends while it makes platform calls")
                with anyio.move_on_after(_DRAIN_S, shield=True):
                    await app.close_adapters()
                    await publisher.drain()

    def install(self, app: App, server: FastAPI) -> None:
        """See `ProcessPart.install`."""
        app.site.install(server, app.operator, app.late_operations)
