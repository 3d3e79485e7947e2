"""Serves a web application of a test behind the guard, which checks logins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from nekro_core.console.access.authentication import Authenticator
from nekro_core.console.access.guard import Guard
from nekro_core.console.web_site import ConsoleSite
from nekro_core.store import Store
from tests.adapters.web.running import Clock, serving

TOKEN = "the right token of a test"


@asynccontextmanager
async def guarded(app: FastAPI, folder: Path) -> AsyncIterator[tuple[str, Authenticator]]:
    """Serve ``app`` behind the guard. Yields the address and the `Authenticator` that checks
    logins."""
    clock = Clock()
    async with Store.open(f"sqlite://{folder}/web.sqlite3", clock=clock) as store:
        settings = {"web_access_token": TOKEN}
        authenticator = ConsoleSite.of(store, folder, settings, clock=clock).authenticator
        app.add_middleware(Guard, authenticator=authenticator, allowed_hosts=frozenset[str]())
        async with serving(app) as url:
            yield url, authenticator
