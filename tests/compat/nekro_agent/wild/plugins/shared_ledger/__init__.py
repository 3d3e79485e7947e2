"""AA 记账本：AI 记账 + 网页查看

页面在 /plugins/<插件key>/
"""

import asyncio
import csv
import io
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, List, Optional

import jinja2
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse
from nekro_agent.api.plugin import ConfigBase, NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.core.logger import get_sub_logger
from nekro_agent.services.user.deps import get_current_active_user
from nekro_agent.services.user.perm import Role, require_role
from pydantic import BaseModel, Field

logger = get_sub_logger("shared_ledger")

plugin = NekroPlugin(
    name="AA 记账本",
    module_name="shared_ledger",
    description="群内 AA 记账与结算，自带网页",
    version="0.9.0",
    author="Tangyuan",
    url="https://github.com/tangyuan-dev/nekro-shared-ledger",
)


@plugin.mount_config()
class LedgerConfig(ConfigBase):
    CURRENCY: str = Field(default="元", title="货币单位")
    PAGE_TITLE: str = Field(default="AA 记账本", title="网页标题")


config = plugin.get_config(LedgerConfig)

DB_PATH = plugin.get_plugin_data_dir() / "ledger.db"
TEMPLATE_DIR = Path(__file__).parent / "templates"
_env = jinja2.Environment(loader=jinja2.FileSystemLoader(str(TEMPLATE_DIR)), autoescape=True)


@contextmanager
def connect():
    conn = sqlite3.connect(DB_PATH, timeout=10)
    conn.row_factory = sqlite3.Row
    try:
        yield conn
        conn.commit()
    finally:
        conn.close()


def _init_db():
    with connect() as conn:
        conn.execute(
            "CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY AUTOINCREMENT, chat_key TEXT NOT NULL,"
            " title TEXT NOT NULL, amount REAL NOT NULL, payer TEXT NOT NULL, created_at REAL NOT NULL)"
        )


def _add(chat_key: str, title: str, amount: float, payer: str) -> int:
    with connect() as conn:
        cur = conn.execute(
            "INSERT INTO entry(chat_key,title,amount,payer,created_at) VALUES(?,?,?,?,?)",
            (chat_key, title, amount, payer, time.time()),
        )
        return cur.lastrowid


def _list(chat_key: Optional[str] = None) -> List[Dict[str, Any]]:
    with connect() as conn:
        if chat_key:
            rows = conn.execute(
                "SELECT * FROM entry WHERE chat_key=? ORDER BY id", (chat_key,)
            ).fetchall()
        else:
            rows = conn.execute("SELECT * FROM entry ORDER BY id").fetchall()
    return [dict(r) for r in rows]


def _delete(entry_id: int) -> bool:
    with connect() as conn:
        return conn.execute("DELETE FROM entry WHERE id=?", (entry_id,)).rowcount > 0


@plugin.mount_init_method()
async def init():
    await asyncio.to_thread(_init_db)
    logger.info(f"记账本数据库: {DB_PATH}")


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR, name="记一笔", description="记录一笔群内支出"
)
async def add_expense(_ctx: AgentCtx, title: str, amount: float, payer: str = "") -> str:
    """记录一笔支出

    Args:
        title (str): 支出说明
        amount (float): 金额
        payer (str): 付款人，留空为当前说话的人

    Example:
        add_expense("奶茶", 36.5, "小李")
    """
    if amount <= 0:
        raise ValueError("金额必须大于 0")
    payer = payer or _ctx.from_user_id or "匿名"
    entry_id = await asyncio.to_thread(_add, _ctx.chat_key, title, amount, payer)
    return f"已记账 #{entry_id}: {title} {amount}{config.CURRENCY} ({payer})"


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="结算", description="计算每个人的应收应付"
)
async def settle(_ctx: AgentCtx, people: int = 2) -> Dict[str, float]:
    """计算每个付款人应收回的金额

    Args:
        people (int): 总人数

    Returns:
        Dict[str, float]: 付款人 -> 应收金额（负数为应付）
    """
    rows = await asyncio.to_thread(_list, _ctx.chat_key)
    share = sum(r["amount"] for r in rows) / max(1, people)
    paid: Dict[str, float] = {}
    for r in rows:
        paid[r["payer"]] = paid.get(r["payer"], 0) + r["amount"]
    return {k: round(v - share, 2) for k, v in paid.items()}


class EntryBody(BaseModel):
    chat_key: str
    title: str = Field(..., min_length=1, max_length=50)
    amount: float = Field(..., gt=0)
    payer: str = "网页"


@plugin.mount_router()
def create_router() -> APIRouter:
    router = APIRouter()

    @router.get("/", response_class=HTMLResponse)
    async def index(request: Request):
        rows = await asyncio.to_thread(_list)
        return HTMLResponse(
            _env.get_template("index.html").render(title=config.PAGE_TITLE, rows=rows)
        )

    @router.get("/entries")
    async def entries(chat_key: str = Query("", description="频道")) -> Dict[str, Any]:
        items = await asyncio.to_thread(_list, chat_key)
        return {"items": items, "total": round(sum(i["amount"] for i in items), 2)}

    @router.post("/entries")
    async def create(body: EntryBody) -> Dict[str, Any]:
        entry_id = await asyncio.to_thread(_add, body.chat_key, body.title, body.amount, body.payer)
        return {"ok": True, "id": entry_id}

    @router.delete("/entries/{entry_id}")
    @require_role(Role.Admin)
    async def remove(
        entry_id: int, _current_user=Depends(get_current_active_user)
    ) -> Dict[str, bool]:
        if not await asyncio.to_thread(_delete, entry_id):
            raise HTTPException(status_code=404, detail="没有这条记录")
        return {"ok": True}

    @router.get("/export.csv")
    async def export() -> PlainTextResponse:
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(["id", "title", "amount", "payer"])
        for r in await asyncio.to_thread(_list):
            writer.writerow([r["id"], r["title"], r["amount"], r["payer"]])
        return PlainTextResponse(out.getvalue(), media_type="text/csv")

    return router


@plugin.mount_cleanup_method()
async def clean_up():
    """清理插件资源"""
