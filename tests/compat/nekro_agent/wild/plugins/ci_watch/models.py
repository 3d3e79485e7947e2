from typing import Dict, List

from pydantic import BaseModel

from .plugin import store


class Subscriptions(BaseModel):
    """仓库 -> 订阅它的频道"""

    repos: Dict[str, List[str]] = {}

    @classmethod
    async def load(cls) -> "Subscriptions":
        raw = await store.get(store_key="subs")
        return cls.model_validate_json(raw) if raw else cls()

    async def save(self) -> None:
        await store.set(store_key="subs", value=self.model_dump_json())

    def channels(self, repo: str) -> List[str]:
        return self.repos.get(repo, []) + self.repos.get("*", [])
