"""Stores the requests of plugins and of background work to models. The replies of a turn are not
stored here, but as the turn's steps."""

from collections.abc import Awaitable

from loguru import logger

from nekro_core.store.database import Database, SqlStatement
from nekro_core.store.values import PRICED, ModelUse, Usage

_INSERT = """
INSERT INTO model_uses (plugin, chat_key, user_id, run_id, model, prompt_tokens, cached_tokens,
completion_tokens, estimated, cost, price_source, started, seconds, role)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class ModelUseRepository:
    """Stores plugins' requests to models and sums up their usage. Times are seconds since 1970.
    `TurnRepository.usage` includes these requests."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, use: ModelUse) -> Awaitable[object]:
        """Queue a row. The result need not be awaited."""
        return self._database.write(
            SqlStatement(
                _INSERT,
                (
                    use.plugin,
                    use.chat_key,
                    use.user_id,
                    use.run_id,
                    use.model,
                    use.prompt_tokens,
                    use.cached_tokens,
                    use.completion_tokens,
                    use.estimated,
                    use.cost,
                    use.price_source,
                    use.started,
                    use.seconds,
                    use.role,
                ),
            ),
            failed=lambda: logger.error(
                "a request to {} by {} is not stored", use.model, use.plugin
            ),
        )

    async def usage(self, *, since: float, plugin: str) -> Usage:
        """Return the total usage of a plugin's requests that began at ``since`` or later."""
        return await self._usage("plugin", plugin, since)

    async def usage_of_role(self, *, since: float, role: str) -> Usage:
        """Return the total usage of a role's requests that began at ``since`` or later."""
        return await self._usage("role", role, since)

    async def _usage(self, column: str, value: str, since: float) -> Usage:
        (row,) = await self._database.read(
            "SELECT COALESCE(SUM(prompt_tokens), 0) AS prompt, "
            "COALESCE(SUM(completion_tokens), 0) AS completion, COALESCE(SUM(cost), 0) AS cost, "
            f"{PRICED}, COUNT(*) AS requests FROM model_uses WHERE started >= ? AND {column} = ?",
            since,
            value,
        )
        return Usage(
            steps=int(row["requests"]),
            prompt_tokens=int(row["prompt"]),
            completion_tokens=int(row["completion"]),
            cost=float(row["cost"]),
            published_cost=float(row["published_cost"]),
            unpriced=int(row["unpriced"]),
        )
