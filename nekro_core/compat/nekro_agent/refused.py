"""A table of the names of nekro-agent that this bot does not have, each with what to use instead.

A key is a module, which also stands for all modules below it, or ``module:name``. Importing such a
module or name raises an `ImportError` with the text of the entry.
"""

from collections.abc import Mapping
from types import MappingProxyType

_SETTINGS = "a plugin can only read the bot's settings; the operator writes them to .env"
_SWITCHES = (
    "a plugin cannot switch plugins on or off; the operator does, with "
    "`nekro plugin enable` and `nekro plugin disable`"
)
_TIMERS = "timers are made and listed with nekro_agent.api.timer and recurring_timer"
_PEOPLE = (
    "people come from the platforms: read them with nekro_agent.models.db_user.DBUser; who asks "
    "for a page is Depends(get_current_active_user) of nekro_agent.services.user.deps"
)
_ADAPTERS = (
    "the platform's own bot object is not offered; send with ctx.send_text and ctx.send_image, "
    "or with forward_message of nekro_agent.adapters.utils.adapter_utils"
)
_EXTENSIONS = (
    "extensions of Nekro Agent 1 are not run; make a NekroPlugin of nekro_agent.api.plugin, with "
    "@plugin.mount_sandbox_method"
)
_CLOUD = "the services of Nekro Agent's own cloud belong to that application"
_PAGES = "a plugin's pages are mounted with @plugin.mount_router()"

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "nekro_agent.adapters:init_adapters": _ADAPTERS,
        "nekro_agent.adapters.bilibili_live": _ADAPTERS,
        "nekro_agent.adapters.discord": _ADAPTERS,
        "nekro_agent.adapters.email": _ADAPTERS,
        "nekro_agent.adapters.feishu": _ADAPTERS,
        "nekro_agent.adapters.interface:collect_message": (
            "a plugin cannot add a message of a person; an adapter of its own does, see "
            "docs/adapters.md"
        ),
        "nekro_agent.adapters.minecraft": _ADAPTERS,
        "nekro_agent.adapters.onebot_v11.tools.convertor": (
            "messages are read already: @plugin.mount_on_user_message() gets a ChatMessage with "
            "content_data"
        ),
        "nekro_agent.adapters.qq_official": _ADAPTERS,
        "nekro_agent.adapters.qqbot_openclaw": _ADAPTERS,
        "nekro_agent.adapters.sse": _ADAPTERS,
        "nekro_agent.adapters.telegram": _ADAPTERS,
        "nekro_agent.adapters.wechatpad": _ADAPTERS,
        "nekro_agent.adapters.wxwork": _ADAPTERS,
        "nekro_agent.adapters.wxwork_corp_app": _ADAPTERS,
        "nekro_agent.api.context": "ctx has chat_key, channel_id, channel_type and from_user_id",
        "nekro_agent.api.user": (
            "an avatar's address is get_user_avatar of nekro_agent.tools.onebot_util"
        ),
        "nekro_agent.core.args": "the bot has no arguments that a plugin could read",
        "nekro_agent.core.config:CONFIG_PATH": _SETTINGS,
        "nekro_agent.core.config:reload_config": _SETTINGS,
        "nekro_agent.core.config:save_config": _SETTINGS,
        "nekro_agent.core.database": (
            "the database has other tables; read rows with nekro_agent.models, store texts with "
            "plugin.store and files below plugin.get_plugin_data_dir()"
        ),
        "nekro_agent.models.db_recurring_timer": _TIMERS,
        "nekro_agent.models.db_timer_job": _TIMERS,
        "nekro_agent.models.db_workspace": (
            "a chat has named boxes instead of a workspace: ctx.sandbox_tool"
        ),
        "nekro_agent.routers": _PAGES,
        "nekro_agent.schemas.errors": "a route answers an error with fastapi.HTTPException",
        "nekro_agent.schemas.trigger_audit": (
            "wake the agent of a chat with push_system(..., trigger_agent=True) of "
            "nekro_agent.api.message"
        ),
        "nekro_agent.services.agent.run_agent:run_agent": (
            "wake the agent of a chat with push_system(..., trigger_agent=True) of "
            "nekro_agent.api.message"
        ),
        "nekro_agent.services.agent.templates": (
            "the bot's own prompts have another form; make messages with "
            "OpenAIChatMessage.from_text, or from_template with a template of Jinja"
        ),
        "nekro_agent.services.config_resolver": (
            "the settings are the same for all chats: nekro_agent.core.config.config"
        ),
        "nekro_agent.services.config_service:UnifiedConfigService": _SETTINGS,
        "nekro_agent.services.extension": _EXTENSIONS,
        "nekro_agent.services.festival_service": _TIMERS,
        "nekro_agent.services.mcp": "the operator names MCP servers in data/mcp.json",
        "nekro_agent.services.notice_service": (
            "notices are read already; @plugin.mount_on_user_message() gets them too, and so does "
            "nonebot.on_notice"
        ),
        "nekro_agent.services.plugin.manager:disable_plugin": _SWITCHES,
        "nekro_agent.services.plugin.manager:enable_plugin": _SWITCHES,
        "nekro_agent.services.plugin.manager:get_all_ext_meta_data": (
            "the plugins are listed by get_all_plugins of "
            "nekro_agent.services.plugin.collector.plugin_collector"
        ),
        "nekro_agent.services.plugin.manager:reload_plugins": _SWITCHES,
        "nekro_agent.services.user.auth": _PEOPLE,
        "nekro_agent.services.user.util": _PEOPLE,
        "nekro_agent.services.user:query_user_by_bind_qq": _PEOPLE,
        "nekro_agent.services.user:user_register": _PEOPLE,
        "nekro_agent.systems.cloud": _CLOUD,
        "nekro_agent.tools.collector": _EXTENSIONS,
        "nekro_agent.tools.docker_util": "a plugin gets boxes with ctx.sandbox_tool",
    }
)
