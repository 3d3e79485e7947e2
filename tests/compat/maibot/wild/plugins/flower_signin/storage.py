"""花的账本，存成一个 JSON。"""

import json
from datetime import date
from pathlib import Path


class FlowerBook:
    """{群号: {qq: {"flowers": int, "days": int, "last": "2025-01-01", "name": str}}}"""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.groups: dict[str, dict[str, dict]] = {}

    def load(self) -> None:
        if self.path.exists():
            self.groups = json.loads(self.path.read_text(encoding="utf-8"))

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(
            json.dumps(self.groups, ensure_ascii=False, indent=2), encoding="utf-8"
        )

    def person(self, group: str, user: str, name: str = "") -> dict:
        entry = self.groups.setdefault(group, {}).setdefault(
            user, {"flowers": 0, "days": 0, "last": "", "name": name or user}
        )
        if name:
            entry["name"] = name
        return entry

    def sign_in(self, group: str, user: str, name: str) -> int:
        """返回得到的花数，0 表示今天签过了。"""
        entry = self.person(group, user, name)
        today = date.today().isoformat()
        if entry["last"] == today:
            return 0
        entry["last"] = today
        entry["days"] += 1
        won = 3 + min(entry["days"], 7)
        entry["flowers"] += won
        self.save()
        return won

    def ranking(self, group: str) -> list[dict]:
        people = self.groups.get(group, {}).values()
        return sorted(people, key=lambda one: -one["flowers"])[:10]
