"""Tools as authors write them without a type checker. Some return another type than they declare,
and some name the context in another way."""

from nekro_agent.api.plugin import NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx

plugin = NekroPlugin("Loose tools", "loose_tools", "Odd habits.", "0.1.0", "ann", "")


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, "weather", "查询天气")
async def weather(context, city: str) -> dict:
    """查询天气

    Args:
        city (str): 城市

    Example:
        result = weather("Paris")
        send_msg_text(_ck, result)
    """
    return {"city": city, "sky": "clear"}


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, "forget", "忘记一件事")
async def forget(c: AgentCtx, what: str) -> None:
    """忘记一件事

    Args:
        what (str): 内容
    """


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "note", "记下一件事")
async def note(_ctx, what: str):
    """记下一件事

    Args:
        what (str): 内容
    """
    return ["noted", what]


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "shout", "大声说")
async def shout(text: str) -> str:
    """大声说

    Args:
        text (str): 内容
    """
    return text.upper()
