"""A plugin that sends through the adapter of the chat."""

from nekro_agent.adapters.interface.schemas.platform import (
    PlatformAtSegment,
    PlatformSendRequest,
    PlatformSendSegment,
    PlatformSendSegmentType,
)
from nekro_agent.adapters.utils import adapter_utils
from nekro_agent.api.message import send_file
from nekro_agent.api.plugin import CmdCtl, CommandExecutionContext, CommandResponse, NekroPlugin

from nekro_agent.api.schemas import AgentCtx

plugin = NekroPlugin("传令", "herald", "传令", "0.1.0", "keeper", "")


@plugin.mount_command("announce", "通知")
async def announce(
    context: CommandExecutionContext, text: str, chat_key: str = ""
) -> CommandResponse:
    folder = plugin.get_plugin_data_dir()
    note = folder / "note.txt"
    note.write_text(text)
    adapter = await adapter_utils.get_adapter_for_chat(context.chat_key)
    request = PlatformSendRequest(
        chat_key=chat_key or context.chat_key,
        segments=[
            PlatformSendSegment(
                type=PlatformSendSegmentType.AT,
                at_info=PlatformAtSegment(platform_user_id=context.user_id, nickname="Lin"),
            ),
            PlatformSendSegment(type=PlatformSendSegmentType.TEXT, content=f" {text}"),
            PlatformSendSegment(type=PlatformSendSegmentType.FILE, file_path=str(note)),
        ],
    )
    response = await adapter.forward_message(request)
    if not response.success:
        return CmdCtl.failed(f"失败: {response.error_message}")
    known = await adapter.get_user_info(context.user_id)
    channel = await adapter.get_channel_info(context.ctx.channel_id)
    return CmdCtl.success(f"{known.user_name} {channel.channel_name}")


async def send_later(chat_key: str, path: str) -> None:
    """What a task or a timer of the plugin does."""
    ctx = await AgentCtx.create_by_chat_key(chat_key)
    await send_file(chat_key, path, ctx)
