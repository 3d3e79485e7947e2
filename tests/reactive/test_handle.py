"""A box handle keeps a box from one command to the next. The tests check its commands, files and
images, and what a model may do in it."""

import json

import anyio
import pytest

from nekro_core.api.reactive import (
    ReactiveError,
    Resources,
    cell,
    exec_,
    generate_text,
    read_sandbox_file,
    sandbox,
    scope,
    settled,
    write_sandbox_file,
)
from nekro_core.llm.model import FunctionCall
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.sandbox.box import BackendUnavailable, Box, BoxFileError
from nekro_core.sandbox.named import ImageMismatch
from nekro_core.sandbox.tools import SandboxPool
from tests.reactive.conftest import Source

pytestmark = pytest.mark.jail


async def test_a_box_keeps_its_files_between_commands(resources: Resources, source: Source) -> None:
    async with scope(resources):
        box = sandbox()
        assert (box.status, source.taken) == ("sleeping", [])
        first = box.exec("echo 1 > n; echo done")
        assert (await first.settled()).result.ok
        second = box.exec("cat n; echo 2 >> n", after=first)
        assert (await second.settled()).result.stdout == "1\n"
        other = exec_("cat n")
        assert not (await other.settled()).result.ok, "another box must not have the file"
        assert box.status == "running"
    assert box.status == "destroyed"
    assert len(source.taken) == 2


async def test_a_new_image_makes_a_new_box(resources: Resources, source: Source) -> None:
    image = cell("python")
    async with scope(resources):
        box = sandbox(image)
        write = box.write_file("n", "old")
        read = box.read_file("n", after=write)
        count = box.exec("ls | wc -l; echo mine > m", after=read)
        await settled()
        assert (read.result, count.result.stdout.strip()) == ("old", "1")
        image.set("other")
        assert (read.result, read.pending, write.pending) == (None, False, True)
        assert count.result is None
        await settled()
        assert (read.result, count.result.stdout.strip()) == ("old", "1")
        assert source.asked_for == ["python", "other"]
        assert source.alive == 1
        image.set("python")
        image.set("other")
        assert write.pending, (
            "the image was changed and changed back, so the command must run again"
        )
        await settled()
        assert source.asked_for == ["python", "other", "other"]
        assert (source.alive, count.result.stdout.strip()) == (1, "1")


async def test_a_box_of_an_old_image_is_destroyed_without_waiting_for_a_new_one(
    resources: Resources, source: Source
) -> None:
    image, command = cell("python"), cell("true")
    async with scope(resources):
        box = sandbox(image)
        box.exec(command)
        await settled()
        command.set(None)
        assert source.alive == 1
        image.set("other")
        await settled()
        assert (source.alive, box.status) == (0, "sleeping")


async def test_a_file_is_read_again_after_it_was_written_again(resources: Resources) -> None:
    text, path = cell("one"), cell("a/b.json")
    async with scope(resources):
        box = sandbox()
        write = box.writeFile(path, text)
        read = box.readFile(path, after=write)
        assert (await read.settled()).result == "one"
        assert (write.result.ok, write.result.size) == (True, 3)
        text.set('{"n": 2}')
        assert read.result is None
        assert (await read.settled()).result == '{"n": 2}'
        parsed = read_sandbox_file(box, path, mode="json", after=read)
        assert (await parsed.settled()).result == {"n": 2}
        text.set("7")
        await settled()
        assert (read.result, parsed.result) == ("7", 7)
        text.set(None)
        assert (write.result, write.pending) == (None, False)
        gone = box.read_file("gone")
        error = (await gone.settled()).error
        assert isinstance(error, BoxFileError)
        assert error.code == "not_found"


async def test_a_named_box_belongs_to_the_chat_and_stays_after_the_scope(
    resources: Resources, pool: SandboxPool, source: Source
) -> None:
    async with scope(resources):
        box = sandbox(name="data")
        await box.write_file("n", "7").settled()
        by_name = read_sandbox_file("data", "n")
        assert (await by_name.settled()).result == "7"
        write = write_sandbox_file(cell("data"), "m", b"\x00")
        assert (await write.settled()).result.size == 1
        for name in ("nobody", "../etc", 7):
            missing = read_sandbox_file(name, "n")
            assert "there is data" in str((await missing.settled()).error)
    assert (box.status, source.alive) == ("running", 1)
    assert [each.name for each in await pool.boxes.list()] == ["data"]
    async with scope(resources):
        assert (await sandbox(name="data").read_file("n").settled()).result == "7"
        other = sandbox("other", name="data").read_file("n")
        assert isinstance((await other.settled()).error, ImageMismatch), (
            "the scope must not destroy a named box"
        )
    await pool.boxes.destroy_all()


async def test_several_commands_at_once_make_one_box(resources: Resources, source: Source) -> None:
    async with scope(resources):
        box = sandbox()
        runs = [box.exec([["echo", str(number)]]) for number in range(8)]
        await settled()
        assert [run.result.stdout for run in runs] == [f"{number}\n" for number in range(8)]
    assert len(source.taken) == 1


async def test_a_scope_that_ends_early_leaves_no_box(resources: Resources, source: Source) -> None:
    async with scope(resources) as outer:
        with scope():
            inner = sandbox()
            runs = [inner.exec("sleep 60") for _ in range(3)]
            while not source.alive:
                await anyio.sleep(0.01)
        with anyio.fail_after(30):
            while source.alive:
                await anyio.sleep(0.01)
        assert not any(run.pending for run in runs)
        with anyio.fail_after(30):
            await outer.settled()
        for command in ("sleep 60", "true"):
            sandbox().exec(command)
        await anyio.sleep(0.05)
    assert source.alive == 0


async def test_a_model_can_use_only_the_box_that_it_was_given(
    resources: Resources, source: Source, pool: SandboxPool
) -> None:
    async with scope(resources):
        box = sandbox()
        tools = box.tools()
        assert list(tools) == ["shell", "read_file", "write_file", "glob", "browse"]
        for tool in tools.values():
            assert "sandbox" not in tool.parameters["properties"]
            assert tool.parameters["additionalProperties"] is False
        written = await tools["write_file"].call({"path": "a.txt", "content": "hi"})
        assert json.loads(written) == {"ok": True, "size": 2}
        shown = json.loads(await tools["shell"].call({"command": "cat a.txt"}))
        assert (shown["stdout"], shown["exit_code"]) == ("hi", 0)
        assert json.loads(await tools["glob"].call({"pattern": "*"})) == {"files": ["a.txt"]}
        refused = json.loads(await tools["read_file"].call({"path": "a.txt", "offset": -1}))
        assert refused["error"]["code"] == "invalid_input"
        with pytest.raises(ReactiveError, match="no input 'sandbox'"):
            await tools["shell"].call({"command": "true", "sandbox": "data"})
    assert len(source.taken) == 1
    assert await pool.boxes.list() == ()


async def test_a_model_reads_no_details_of_a_failed_backend(source: Source) -> None:
    class Nothing:
        async def take(self, image: str = "") -> Box:
            raise BackendUnavailable("/root/secret: no user namespaces; see the manual")

    model = ScriptedModel(
        [ScriptedAnswer(calls=[FunctionCall(call_id="1", name="shell", written="{}")]), "I cannot."]
    )
    async with scope(Resources(boxes=Nothing(), model=model)):
        answer = generate_text("go", tools=sandbox("python").tools())
        assert (await answer.settled()).result == "I cannot."
    told = model.requests[-1].messages[-1].parts[0].text
    assert told == "shell failed with BackendUnavailable"


async def test_without_named_boxes_the_error_says_so() -> None:
    async with scope(Resources()):
        with pytest.raises(ReactiveError, match="no boxes"):
            sandbox()
        with pytest.raises(ReactiveError, match="keeps no boxes"):
            sandbox(name="data")
        with pytest.raises(ReactiveError, match="keeps no boxes"):
            read_sandbox_file("data", "n")
