"""A plugin that copies people, groups and presets into models of its own."""

from typing import Dict, List, Union

from pydantic import BaseModel
from tortoise.exceptions import BaseORMException, DoesNotExist

from nekro_agent.api.plugin import CmdCtl, CommandExecutionContext, CommandResponse, NekroPlugin
from nekro_agent.models.db_chat_channel import ChannelStatus, DBChatChannel, DefaultPreset
from nekro_agent.models.db_preset import DBPreset
from nekro_agent.models.db_user import DBUser

plugin = NekroPlugin("关系", "relations", "关系", "0.1.0", "keeper", "")


class Person(BaseModel):
    id: int
    username: str
    platform_userid: str


class Group(BaseModel):
    id: int
    channel_id: str
    channel_name: str


async def people() -> List[Person]:
    rows = await DBUser.filter(id__not=1)
    return [Person(**{name: getattr(row, name) for name in Person.model_fields}) for row in rows]


async def groups() -> List[Group]:
    rows = await DBChatChannel.filter(channel_type="group")
    return [Group(**{name: getattr(row, name) for name in Group.model_fields}) for row in rows]


@plugin.mount_command("people", "所有人")
async def list_people(context: CommandExecutionContext) -> CommandResponse:
    found = await people()
    for person in found:
        same = await DBUser.get(id=person.id)
        assert same.platform_userid == person.platform_userid
    me = context.ctx.db_user
    admin = await DBUser.get_or_none(id=1)
    mine = [person.username for person in found if person.id == me.id]
    return CmdCtl.success(f"{[each.username for each in found]} {mine} {admin.perm_level}")


@plugin.mount_command("groups", "所有群")
async def list_groups(context: CommandExecutionContext) -> CommandResponse:
    found = {group.id: group for group in await groups()}
    here = await DBChatChannel.get_channel(chat_key=context.chat_key)
    try:
        await DBChatChannel.get(id=5)
    except DoesNotExist:
        return CmdCtl.success(f"{len(found)} {found[here.id].channel_name}")
    return CmdCtl.failed("5")


@plugin.mount_command("where", "在哪")
async def where(context: CommandExecutionContext) -> CommandResponse:
    row = await DBChatChannel.get_channel(chat_key=context.chat_key)
    names = f"{context.ctx.channel_name}, {row.channel_name}"
    me = context.ctx.from_platform_userid
    return CmdCtl.success(f"[@id:{me};nickname:{context.username}@] {names}")


@plugin.mount_command("identity", "人设")
async def identity(context: CommandExecutionContext, name: str = "") -> CommandResponse:
    channel = await DBChatChannel.get_or_none(chat_key=context.chat_key)
    before: Union[DBPreset, DefaultPreset] = await channel.get_preset()
    if name:
        made = await DBPreset.create(name=name, content=f"You are {name}.")
        channel.preset_id = made.id
        await channel.save()
    after = await channel.get_preset()
    exported: Dict[str, str] = {
        preset.name: preset.create_time.strftime("%Y") for preset in await DBPreset.all()
    }
    kind = "默认" if isinstance(after, DefaultPreset) else f"{after.id}"
    same = "未变" if before == after else "已变"
    return CmdCtl.success(f"{kind} {same} {sorted(exported)}")


@plugin.mount_command("watch", "只看")
async def watch(context: CommandExecutionContext) -> CommandResponse:
    changed = 0
    for channel in await DBChatChannel.all():
        if channel.channel_status == ChannelStatus.ACTIVE:
            try:
                await channel.set_channel_status(ChannelStatus.OBSERVE)
            except BaseORMException as error:
                return CmdCtl.failed(str(error))
            changed += 1
    return CmdCtl.success(f"{changed} observed")


@plugin.mount_command("speak", "说话")
async def speak(context: CommandExecutionContext) -> CommandResponse:
    channel = await DBChatChannel.get_channel(chat_key=context.chat_key)
    was = channel.channel_status
    await channel.set_channel_status(ChannelStatus.ACTIVE)
    return CmdCtl.success(f"{was.value} {channel.channel_status.value}")
