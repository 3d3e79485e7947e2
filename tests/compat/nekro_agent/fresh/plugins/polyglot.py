import asyncio
from typing import Optional

from nekro_agent.api import core, message
from nekro_agent.api.plugin import ConfigBase, ExtraField, NekroPlugin, SandboxMethodType
from nekro_agent.api.schemas import AgentCtx
from nekro_agent.api.signal import MsgSignal
from nekro_agent.core.config import ModelConfigGroup
from nekro_agent.core.config import config as core_config
from nekro_agent.core.logger import get_sub_logger
from nekro_agent.schemas.chat_message import ChatMessage
from nekro_agent.services.agent.creator import ContentSegment, OpenAIChatMessage
from nekro_agent.services.agent.openai import OpenAIResponse, gen_openai_chat_response
from nekro_agent.services.message_service import message_service
from pydantic import Field

logger = get_sub_logger("polyglot")

plugin = NekroPlugin(
    "Polyglot",
    "polyglot",
    "Translates with a model of its own",
    "2.0.1",
    "Jean_P",
    "https://github.com/x/polyglot",
)


@plugin.mount_config()
class PolyglotConfig(ConfigBase):
    MODEL_GROUP: str = Field(
        default="translate",
        title="Model group",
        json_schema_extra=ExtraField(
            ref_model_groups=True, required=True, model_type="chat"
        ).model_dump(),
        description="The model group that translates",
    )
    PREFIX: str = Field(default="tr:", title="Prefix")


def _group() -> ModelConfigGroup:
    cfg = plugin.get_config(PolyglotConfig)
    if cfg.MODEL_GROUP not in core.config.MODEL_GROUPS:
        logger.warning(f"no group {cfg.MODEL_GROUP}, use default")
    return core_config.get_model_group_info(cfg.MODEL_GROUP)


async def _ask(text: str, target: str, image: Optional[bytes] = None) -> str:
    g = _group()
    msg = OpenAIChatMessage.create_empty("user")
    msg.add(ContentSegment.text_content(f"Translate into {target}: {text}"))
    resp: OpenAIResponse = await gen_openai_chat_response(
        model=g.CHAT_MODEL,
        messages=[OpenAIChatMessage.from_text("system", "You are a translator."), msg],
        base_url=g.BASE_URL,
        api_key=g.API_KEY,
        proxy_url=g.CHAT_PROXY,
        temperature=g.TEMPERATURE,
        top_p=g.TOP_P,
        extra_body=g.EXTRA_BODY,
        max_wait_time=30,
        stream_mode=False,
    )
    logger.debug(f"tokens {resp.token_consumption} by {resp.use_model}")
    return resp.response_content.strip()


@plugin.mount_on_user_message()
async def on_message(_ctx: AgentCtx, msg: ChatMessage) -> Optional[MsgSignal]:
    cfg = plugin.get_config(PolyglotConfig)
    if msg.is_empty():
        return None
    if msg.content_text.startswith(cfg.PREFIX):
        out = await _ask(msg.content_text[len(cfg.PREFIX) :].strip(), "English")
        await message.send_text(
            _ctx.chat_key, f"{msg.sender_nickname or msg.sender_name}: {out}", _ctx, record=True
        )
        return MsgSignal.BLOCK_TRIGGER
    if any(seg.type == "image" for seg in msg.content_data):
        return MsgSignal.CONTINUE
    if msg.content_text == "wake up polyglot":
        return MsgSignal.FORCE_TRIGGER
    return None


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "translate")
async def translate(_ctx: AgentCtx, text: str, target_lang: str = "English") -> str:
    """Translate text

    Parameters
    ----------
    text : str
        the text
    target_lang : str
        the language

    Returns
    -------
    str
        the translation
    """
    parts = await asyncio.gather(*[_ask(p, target_lang) for p in text.split("|")])
    return "|".join(parts)


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "announce", "announce a translation")
async def announce(_ctx: AgentCtx, text: str) -> str:
    """Announce in the chat and in the record"""
    await message_service.push_system_message(
        chat_key=_ctx.chat_key, agent_messages=f"[polyglot] {text}", trigger_agent=False
    )
    await _ctx.ms.send_text(_ctx.from_chat_key, text, _ctx)
    return f"announced {text}"
