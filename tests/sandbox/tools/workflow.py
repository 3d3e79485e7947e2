"""Tests the example of the tools' design document: two halves of an application are built in two
sandboxes, combined, and opened."""

import json
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import async_playwright, expect

from nekro_core.sandbox.box import Backend, Box, BoxSpec
from nekro_core.sandbox.named import FolderStorage, NamedBoxes, NamedBoxLimits
from nekro_core.sandbox.tools import SandboxPool, handle_tool_call
from tests.sandbox.preview.world import World
from tests.sandbox.preview.world import world as preview_world

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--no-proxy-server"]

BUILD = """\
import { mkdirSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";

const script = `fetch("api/word").then((answer) => answer.text()).then((word) => {
  document.querySelector("#word").textContent = word;
});`;
const name = createHash("sha256").update(script).digest("hex").slice(0, 8);
mkdirSync("dist/assets", { recursive: true });
writeFileSync(`dist/assets/app-${name}.js`, script);
writeFileSync("dist/index.html",
  `<!doctype html><title>Workflow</title><h1>Built by node ${process.versions.node}</h1>
   <p id="word"></p><script src="assets/app-${name}.js"></script>`);
console.log(`built app-${name}.js`);
"""

BUILD_WITHOUT_NODE = """\
import hashlib, os, sys

script = \'\'\'fetch("api/word").then((answer) => answer.text()).then((word) => {
  document.querySelector("#word").textContent = word;
});\'\'\'
name = hashlib.sha256(script.encode()).hexdigest()[:8]
os.makedirs("dist/assets", exist_ok=True)
open(f"dist/assets/app-{name}.js", "w").write(script)
open("dist/index.html", "w").write(
  f\'\'\'<!doctype html><title>Workflow</title><h1>Built by Python {sys.version_info[0]}</h1>
   <p id="word"></p><script src="assets/app-{name}.js"></script>\'\'\')
print(f"built app-{name}.js")
"""

SERVER = """\
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from functools import partial

class Handler(SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/api/word":
            return super().do_GET()
        word = open("/home/user/app/word").read().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(word)))
        self.end_headers()
        self.wfile.write(word)

ThreadingHTTPServer(("0.0.0.0", 8000), partial(Handler, directory="static")).serve_forever()
"""


class Boxes:
    """Boxes of a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def take(self, image: str = "") -> Box:
        return await self._backend.create(replace(BoxSpec(), template=image))


class MultiSandboxWorkflow:
    """Needs the fixture ``backend``. ``images`` are the images of the two halves. ``files`` and
    ``build`` are the files and the build command of the first half."""

    images = ("node:22", "python")
    files = (
        ("package.json", json.dumps({"name": "app", "scripts": {"build": "node build.mjs"}})),
        ("build.mjs", BUILD),
    )
    build = "npm run --silent build"

    @pytest.fixture
    async def world(self) -> AsyncIterator[World]:
        async with preview_world() as world:
            yield world

    @pytest.fixture
    async def keeper(self, backend: Backend, tmp_path: Path) -> AsyncIterator[NamedBoxes]:
        keeper = NamedBoxes(
            Boxes(backend), FolderStorage(tmp_path), NamedBoxLimits(), clock=time.monotonic
        )
        yield keeper
        await keeper.aclose()

    async def test_two_boxes_build_and_serve_an_application(
        self, keeper: NamedBoxes, world: World
    ) -> None:
        pool = SandboxPool(keeper.of("lin"), preview=world.preview)
        word = secrets.token_hex(8)
        frontend, backend = self.images

        async def use(tool: str, **given: Any) -> dict[str, Any]:
            done = await handle_tool_call(pool, tool, given)
            assert not done.is_error, done
            return done.value

        assert (await use("sandbox_create", sandbox="frontend", image=frontend))["created"]
        assert (await use("sandbox_create", sandbox="backend", image=backend))["created"]
        for name, content in self.files:
            await use("write_file", sandbox="frontend", path=f"app/{name}", content=content)
        built = await use("shell", sandbox="frontend", command=f"cd app && {self.build}")
        assert "built app-" in built["stdout"]
        await use("shell", sandbox="backend", command="mkdir app")
        await use("write_file", sandbox="backend", path="/home/user/app/main.py", content=SERVER)
        await use("write_file", sandbox="backend", path="/home/user/app/word", content=word)
        moved = await use(
            "transfer",
            from_sandbox="frontend",
            from_path="/home/user/app/dist",
            to_sandbox="backend",
            to_path="/home/user/app/static",
            recursive=True,
        )
        sizes = await use(
            "shell", sandbox="backend", command="cat app/static/index.html app/static/*/* | wc -c"
        )
        assert moved["bytes"] == int(sizes["stdout"])
        began = time.monotonic()
        await use("shell", sandbox="backend", command="cd /home/user/app && python3 main.py &")
        assert time.monotonic() - began < 25, "a call must not wait for a server in the background"
        shown = await use("browse", sandbox="backend", port=8000)
        assert set(shown) == {"url"}
        assert await use("browse", sandbox="backend", port=8000) == shown
        async with async_playwright() as playwright:
            chromium = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            page = await chromium.new_page()
            await page.goto(shown["url"])
            await expect(page.locator("h1")).to_contain_text("Built by")
            await expect(page.locator("#word")).to_have_text(word)
            named = await keeper.of("lin").find("backend")
            assert named is not None
            assert await named.sleep(), "visits of a preview must not keep a box awake"
            asleep = await page.goto(shown["url"])
            assert asleep is not None
            assert asleep.status == 503
            assert not named.running, "visits of a preview must not wake a box"
            await keeper.of("lin").destroy("backend")
            gone = await page.goto(shown["url"])
            assert gone is not None
            assert gone.status in (404, 410)
            await chromium.close()
