from __future__ import annotations

import time
from typing import Dict, Optional

from pydantic import BaseModel, Field

DAY = 86400


class Plant(BaseModel):
    """一盆植物"""

    name: str
    species: str = "未知"
    interval_days: int = 7
    owner: str = ""
    last_watered: float = Field(default_factory=time.time)

    def due_in(self, now: Optional[float] = None) -> int:
        """距离下次浇水还有几天，负数表示已经渴了"""
        passed = ((now or time.time()) - self.last_watered) / DAY
        return int(self.interval_days - passed)


class Garden(BaseModel):
    plants: Dict[str, Plant] = {}

    def render(self, full: bool) -> str:
        rows = []
        for p in self.plants.values():
            row = f"- {p.name}（{p.species}）"
            if full:
                row += f" 每 {p.interval_days} 天浇一次，主人 {p.owner or '未知'}"
            rows.append(row)
        return "\n".join(rows)
