"""Contains the source code of plugins with commands, as authors write them."""

ECHO = """
@plugin.mount_command("echo", "Say it again.", aliases=["e", "复读"])
async def echo(
    context: CommandExecutionContext, text: str = Arg("What.", greedy=True)
) -> CommandResponse:
    return CmdCtl.success(f"{context.username}: {text}")

@plugin.mount_command("roll-dice", "Roll.")
async def roll(
    context,
    sides: Annotated[int, Arg("How many sides.", positional=True, range=(2, 100))] = 6,
    mood: Literal["bold", "shy"] = "shy",
    count: int = Arg("How often.", default=1),
):
    return f"{count}d{sides} {mood} {type(sides).__name__}"
"""


GUARDED = """
@plugin.mount_command("who", "Say who asks.")
async def who(context):
    return f"{context.user_id} {context.standing} {context.chat_key} {context.adapter_key}"

@plugin.mount_command("known", permission=CommandPermission.USER)
async def known(context):
    return "known"

@plugin.mount_command("tune", permission="advanced")
async def tune(context):
    return "tuned"

@plugin.mount_command("purge", permission=CommandPermission.SUPER_USER)
async def purge(context):
    return "purged"
"""


GROUPS = """
stickers = plugin.mount_command_group("sticker", "Stickers.", permission=CommandPermission.USER)

@stickers.command("add", "Keep one.")
async def add(context, name: Annotated[str, Arg("Its name.", positional=True)]):
    return f"added {name}"

@stickers.command("list", "Show all.", aliases=["ls"])
async def show(context):
    yield CmdCtl.message("one")
    yield CmdCtl.message({"zh-CN": "二", "en-US": "two"})

@stickers.command("hidden", internal=True)
async def hidden(context):
    return "hidden"
"""


SAME = """
@plugin.mount_command("echo", "From {0}.")
async def echo(context):
    return "{0}"
"""


ASKING = """
@plugin.mount_command("delete")
async def delete(context, name: str):
    return CmdCtl.wait(
        f"Delete {name}?", "confirm", options=["yes", "no"], timeout=TIME,
        on_timeout_message="Never mind.", context_data={"name": name},
    )

@plugin.mount_command("confirm", internal=True)
async def confirm(context, answer: str, name: str = ""):
    return f"{answer}: {name} ({context.user_id})"
"""


BAD = """
@plugin.mount_command("break")
async def broken(context):
    raise RuntimeError("the key is sk-1234")

@plugin.mount_command("refuse")
async def refuse(context):
    raise ToolFailure("there is no such city")

@plugin.mount_command("odd")
async def odd(context):
    return 7

@plugin.mount_command("half")
async def half(context):
    yield CmdCtl.message("first")
    raise RuntimeError("then not")

@plugin.mount_command("lost")
async def lost(context):
    return CmdCtl.wait("?", "nowhere")

@plugin.mount_command("hang")
async def hang(context):
    await anyio.sleep_forever()
"""


SHOW = """
from pathlib import Path

@plugin.mount_command("show", "Show a file.")
async def show(context: CommandExecutionContext, name: str) -> CommandResponse:
    for source in (name, Path(name)):
        await context.ctx.send_file(source)
    return CmdCtl.success("shown")

@plugin.mount_command("mine", "Show my own file.")
async def mine(context: CommandExecutionContext) -> None:
    await context.ctx.send_file(str(plugin.get_plugin_data_dir() / "kept.txt"))
"""
