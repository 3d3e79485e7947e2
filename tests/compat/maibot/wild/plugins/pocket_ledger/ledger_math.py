"""和钱有关的小函数，全部用分做单位，不碰浮点。"""

from decimal import Decimal


def to_cents(text: str) -> int:
    return int((Decimal(text) * 100).to_integral_value())


def yuan(cents: int) -> str:
    return f"{Decimal(cents) / 100:.2f} 元"


def total(rows: list[dict]) -> int:
    return sum(int(row.get("cents") or 0) for row in rows)
