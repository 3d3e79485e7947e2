"""Serves the accounts of a gateway to the workers, as long as the gateway uses them."""

from collections.abc import Callable, Mapping, MutableMapping, MutableSet
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.cluster.account_server import AccountServer
from nekro_core.cluster.errors import ClusterError, LeaseTaken
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.platforms.contract import AccountState, SupportsAccounts

_LOOK_S = 1.0
"""Seconds between two looks at the states of the accounts."""
_AWAY_S = 5.0
"""An account that has not been connected for this many seconds is given up, so that another gateway
to which it connects can serve it. A shorter loss of the connection changes nothing."""
_AGAIN_S = 1.0
"""Pause in seconds before a gateway tries again to use an account that another gateway uses."""
_AT_WORK = frozenset({AccountState.ONLINE, AccountState.CONNECTING})


@dataclass(slots=True)
class _ServedAccount:
    """An account that this gateway serves, or tries to."""

    adapter: str
    account: str
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    away_since: float | None = None


class GatewayAccounts:
    """The accounts of one gateway.

    Args:
        server: Serves an account.
        adapters: Returns the adapters that run, by name.
        problems: Gets an entry for each account that another gateway uses.
        serving: Contains the instance of each account for as long as workers can send through the
            account.
        look_s: Seconds between two looks at the states of the accounts.
        away_s: An account that has not been connected for this many seconds is given up.
    """

    def __init__(
        self,
        server: AccountServer,
        adapters: Callable[[], Mapping[str, Adapter]],
        problems: MutableMapping[str, str],
        serving: MutableSet[str] | None = None,
        *,
        look_s: float = _LOOK_S,
        away_s: float = _AWAY_S,
    ) -> None:
        self._server = server
        self._adapters = adapters
        self._problems = problems
        self._serving = set[str]() if serving is None else serving
        self._look_s = look_s
        self._away_s = away_s
        self._used: dict[tuple[str, str], str] = {}
        self._served: dict[str, _ServedAccount] = {}
        self._news = anyio.Event()

    def used(self, adapter: str, account: str, instance: str) -> None:
        """Note that an adapter uses an account, which has the chats of ``instance``. Adapters do so
        when an account connects, and for each event of it."""
        if self._used.get((adapter, account)) != instance:
            self._used[adapter, account] = instance
            self._news.set()

    async def live(self) -> None:
        """Serve each account that is in use. Never returns."""
        async with anyio.create_task_group() as tasks:
            while True:
                with anyio.move_on_after(self._look_s):
                    await self._news.wait()
                self._news = anyio.Event()
                self._look(tasks)

    def _look(self, tasks: TaskGroup) -> None:
        """Begin to serve accounts that have connected, and give up those that have not been
        connected for ``away_s`` seconds."""
        now, states = anyio.current_time(), self._states()
        for (adapter, account), instance in [*self._used.items()]:
            state = states.get((adapter, account))
            here = adapter in self._adapters() and (state is None or state in _AT_WORK)
            served = self._served.get(instance)
            if here and served is None:
                served = self._served[instance] = _ServedAccount(adapter, account)
                tasks.start_soon(self._serve, instance, served)
            elif served is not None and (served.adapter, served.account) == (adapter, account):
                if here:
                    served.away_since = None
                elif served.away_since is None:
                    served.away_since = now
                elif now - served.away_since >= self._away_s:
                    served.scope.cancel()
        for instance, served in self._served.items():
            if self._used.get((served.adapter, served.account)) != instance:
                served.scope.cancel()  # The operator gave the account another instance.

    def _states(self) -> dict[tuple[str, str], AccountState]:
        """Return the states of those accounts whose adapters know them."""
        states: dict[tuple[str, str], AccountState] = {}
        for name, adapter in self._adapters().items():
            if not isinstance(adapter, SupportsAccounts):
                continue
            try:
                listed = adapter.managed_accounts.listed()
            except Exception:  # noqa: BLE001 (an adapter can come from a plugin)
                # Its accounts stay as they are, so that workers can still send through them.
                logger.exception("the adapter {} does not list its accounts", name)
                continue
            states |= {(name, each.account): each.state for each in listed if each.account}
        return states

    async def _serve(self, instance: str, served: _ServedAccount) -> None:
        name = f"{served.adapter} {served.account}"
        try:
            with served.scope:
                await self._serve_again_and_again(instance, name)
        finally:
            self._problems.pop(name, None)
            if self._served.get(instance) is served:
                del self._served[instance]

    async def _serve_again_and_again(self, instance: str, name: str) -> None:
        told = ""
        while True:
            try:
                async with self._server.serve(instance):
                    logger.info("{}: this gateway serves the account to the workers", name)
                    self._problems.pop(name, None)
                    told = ""
                    self._serving.add(instance)
                    try:
                        await anyio.sleep_forever()
                    finally:
                        self._serving.discard(instance)
            except ClusterError as error:
                reason = f"the account cannot be used: {error}"
                if isinstance(error, LeaseTaken) and self._alone(name):
                    # For other accounts this is no problem: every gateway has, for example, the web
                    # chat, and one of the gateways sends its messages.
                    self._problems[name] = reason
                if reason != told:
                    logger.warning("{}: {}; it is tried again", name, reason)
                told = reason
            except Exception:  # noqa: BLE001 (a fault of one account must not end the others)
                logger.exception("{}: the account is not served; it is tried again", name)
            await anyio.sleep(_AGAIN_S)

    def _alone(self, name: str) -> bool:
        """Return whether an account is meant to be at one gateway only."""
        adapter = self._adapters().get(name.partition(" ")[0])
        return isinstance(adapter, SupportsAccounts)
