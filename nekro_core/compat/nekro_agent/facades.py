"""Which module names existing plugins import, and what of ours stands behind each.

To offer another one, add a line. A façade re-exports everything of the modules behind it; a line
``module:Name`` offers that one name, ``module:Name as other`` under another, ``module as name`` the
module itself.
"""

from collections.abc import Mapping
from types import MappingProxyType

_API = "nekro_core.api"
_RESPONSE = "nekro_core.plugins.authoring.command_response"
_COMPAT = "nekro_core.compat.nekro_agent"
_SEGMENTS = "nekro_core.compat.nekro_agent.agent_segments"
_LEGACY_MESSAGE = "nekro_core.compat.nekro_agent.legacy_segments"
_CORE_CONFIG = (
    f"{_COMPAT}.core:CoreConfig",
    f"{_COMPAT}.core:config",
    f"{_API}.llm:ModelConfigGroup",
)
_LOGGERS = (f"{_COMPAT}.core:get_sub_logger", f"{_COMPAT}.core:logger")
_MATCHERS = tuple(
    f"{_COMPAT}.onebot:{name}"
    for name in ("command_guard", "finish_with", "on_command", "reset_command_guard")
)
_ONEBOT_UTIL = tuple(
    f"{_COMPAT}.onebot:{name}"
    for name in ("get_user_avatar", "get_user_group_card_name", "get_user_name")
)
_SEND_SEGMENTS = (
    f"{_LEGACY_MESSAGE}:ChatType",
    *(
        f"{_COMPAT}.platform:{name}"
        for name in (
            "PlatformAtSegment",
            "PlatformChannel",
            "PlatformSendRequest",
            "PlatformSendResponse",
            "PlatformSendSegment",
            "PlatformSendSegmentType",
        )
    ),
)
_VECTOR_CLIENT = (
    f"{_API}.vectors:get_qdrant_client",
    f"{_API}.vectors:get_qdrant_config",
)
_PLATFORM_NAMES = ("PlatformUser", "LegacyAdapter as BaseAdapter")
_AGENT_SEGMENTS = tuple(
    f"{_SEGMENTS}:{name}"
    for name in ("AgentMessageSegment", "AgentMessageSegmentType", "MessageContent")
)
_CHAT_MESSAGE = (
    "nekro_core.compat.nekro_agent.legacy_message:LegacyChatMessage as ChatMessage",
    *(
        f"{_LEGACY_MESSAGE}:{name}"
        for name in (
            "ChatMessageSegment",
            "ChatMessageSegmentAt",
            "ChatMessageSegmentFile",
            "ChatMessageSegmentForward",
            "ChatMessageSegmentImage",
            "ChatMessageSegmentJsonCard",
            "ChatMessageSegmentPoke",
            "ChatMessageSegmentType",
            "ChatType",
            "segment_from_dict",
            "segments_from_list",
        )
    ),
)
_BASE = (
    f"{_API}.plugin:NekroPlugin",
    f"{_API}.plugin:ConfigBase",
    f"{_API}.plugin:ExtraField",
    f"{_API}.plugin:SandboxMethod",
    f"{_API}.plugin:SandboxMethodType",
    f"{_API}.plugin:PluginStore",
    f"{_COMPAT}.core:CoreConfig",
)

FACADES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nekro_agent": (),
        "nekro_agent.api": (),
        "nekro_agent.api.core": (
            f"{_API}.core",
            *_CORE_CONFIG,
            *_LOGGERS,
            *_VECTOR_CLIENT,
        ),
        "nekro_agent.api.i18n": (f"{_API}.i18n",),
        "nekro_agent.api.message": (
            f"{_API}.message",
            f"{_COMPAT}.message_service:message_service",
            *_AGENT_SEGMENTS,
        ),
        "nekro_agent.api.plugin": (f"{_API}.plugin",),
        "nekro_agent.api.recurring_timer": (f"{_API}.recurring_timer",),
        "nekro_agent.api.schemas": (
            f"{_COMPAT}.context:LegacyAgentCtx as AgentCtx",
            "nekro_core.plugins.authoring.files:BoxFileSystem",
            "nekro_core.plugins.authoring.web:WebhookRequest",
            *_AGENT_SEGMENTS,
            *_CHAT_MESSAGE,
        ),
        "nekro_agent.api.signal": (f"{_API}.signal",),
        "nekro_agent.api.timer": (f"{_API}.timer",),
        "nekro_agent.core": (
            f"{_COMPAT}.core:logger",
            f"{_COMPAT}.core:config",
            f"{_COMPAT}.core:OsEnv",
        ),
        "nekro_agent.core.bot": (f"{_COMPAT}.platform:get_bot",),
        "nekro_agent.core.config": _CORE_CONFIG,
        "nekro_agent.core.core_utils": (f"{_API}.plugin:ConfigBase", f"{_API}.plugin:ExtraField"),
        "nekro_agent.core.logger": _LOGGERS,
        "nekro_agent.core.os_env": tuple(
            f"{_COMPAT}.core:{name}"
            for name in (
                "DATA_DIR",
                "OsEnv",
                "PLUGIN_DATA_DIR",
                "USER_UPLOAD_DIR",
                "WORKDIR_PLUGIN_DIR",
            )
        ),
        "nekro_agent.core.vector_db": _VECTOR_CLIENT,
        "nekro_agent.schemas": (),
        "nekro_agent.schemas.agent_ctx": (
            f"{_COMPAT}.context:LegacyAgentCtx as AgentCtx",
            f"{_API}.schemas:WebhookRequest",
        ),
        "nekro_agent.schemas.agent_message": _AGENT_SEGMENTS,
        "nekro_agent.schemas.chat_message": _CHAT_MESSAGE,
        "nekro_agent.schemas.i18n": (f"{_API}.i18n",),
        "nekro_agent.schemas.signal": (f"{_API}.signal",),
        "nekro_agent.services": (),
        "nekro_agent.services.agent": (),
        "nekro_agent.services.agent.creator": (
            f"{_API}.llm:ContentSegment",
            f"{_API}.llm:OpenAIChatMessage",
        ),
        "nekro_agent.services.agent.openai": (
            f"{_API}.llm:OpenAIResponse",
            f"{_API}.llm:gen_openai_chat_response",
            f"{_API}.llm:gen_openai_embeddings",
        ),
        "nekro_agent.services.command": (),
        "nekro_agent.services.command.base": (
            "nekro_core.policy.permissions:CommandPermission",
            "nekro_core.plugins.authoring.commands:CommandExecutionContext",
            "nekro_core.plugins.authoring.commands:CommandGroup",
            f"{_RESPONSE}:CommandResponse",
            "nekro_core.plugins.commands.arguments:Arg",
        ),
        "nekro_agent.services.command.ctl": (f"{_RESPONSE}:CmdCtl",),
        "nekro_agent.services.command.schemas": (
            "nekro_core.policy.permissions:CommandPermission",
            "nekro_core.plugins.authoring.commands:CommandExecutionContext",
            f"{_RESPONSE}:CommandOutputSegment",
            f"{_RESPONSE}:CommandOutputType",
            f"{_RESPONSE}:CommandOutputType as CommandOutputSegmentType",
            f"{_RESPONSE}:CommandResponse",
            f"{_RESPONSE}:CommandStatus",
            f"{_RESPONSE}:CommandStatus as CommandResponseStatus",
            "nekro_core.plugins.commands.arguments:Arg",
        ),
        "nekro_agent.services.message_service": (f"{_COMPAT}.message_service",),
        "nekro_agent.services.plugin": (),
        "nekro_agent.services.plugin.base": _BASE,
        "nekro_agent.services.plugin.collector": (
            f"{_COMPAT}.core:PluginCollector",
            f"{_COMPAT}.core:plugin_collector",
        ),
        "nekro_agent.services.plugin.packages": (f"{_API}.plugin:dynamic_import_pkg",),
        "nekro_agent.services.plugin.schema": _BASE,
        "nekro_agent.services.plugin.task": (
            f"{_API}.plugin:AsyncTaskHandle",
            f"{_API}.plugin:TaskCtl",
            f"{_API}.plugin:TaskRunner",
            f"{_API}.plugin:TaskSignal",
            f"{_API}.plugin:task",
        ),
        "nekro_agent.services.timer": (),
        "nekro_agent.services.timer.timer_service": (
            f"{_API}.timer",
            f"{_API}.timer as timer_service",
        ),
        "nekro_agent.services.timer.recurring_timer_service": (
            f"{_API}.recurring_timer",
            f"{_API}.recurring_timer as recurring_timer_service",
        ),
        "nekro_agent.models": (),
        "nekro_agent.models.db_chat_channel": (
            f"{_COMPAT}.rows.chats:DBChatChannel",
            f"{_LEGACY_MESSAGE}:ChatType",
        ),
        "nekro_agent.models.db_chat_message": (f"{_COMPAT}.rows.messages:DBChatMessage",),
        "nekro_agent.models.db_exec_code": (f"{_COMPAT}.rows.plugin_data:DBExecCode",),
        "nekro_agent.models.db_plugin_data": (f"{_COMPAT}.rows.plugin_data:DBPluginData",),
        "nekro_agent.models.db_preset": (f"{_COMPAT}.rows.presets:DBPreset",),
        "nekro_agent.models.db_user": (f"{_COMPAT}.rows.users:DBUser",),
        "nekro_agent.adapters": (),
        "nekro_agent.adapters.interface": (
            *(f"{_COMPAT}.platform:{name}" for name in _PLATFORM_NAMES),
            *_SEND_SEGMENTS,
        ),
        "nekro_agent.adapters.interface.base": (
            f"{_COMPAT}.platform:LegacyAdapter as BaseAdapter",
        ),
        "nekro_agent.adapters.interface.schemas": (),
        "nekro_agent.adapters.interface.schemas.platform": (
            f"{_COMPAT}.platform:PlatformUser",
            *_SEND_SEGMENTS,
        ),
        "nekro_agent.adapters.onebot_v11": (),
        "nekro_agent.adapters.onebot_v11.core": (),
        "nekro_agent.adapters.onebot_v11.core.bot": (f"{_COMPAT}.platform:get_bot",),
        "nekro_agent.adapters.onebot_v11.matchers": (),
        "nekro_agent.adapters.onebot_v11.matchers.command": _MATCHERS,
        "nekro_agent.adapters.onebot_v11.tools": (),
        "nekro_agent.adapters.onebot_v11.tools.onebot_util": _ONEBOT_UTIL,
        "nekro_agent.adapters.utils": (f"{_COMPAT}.platform:adapter_utils",),
        "nekro_agent.matchers": (),
        "nekro_agent.matchers.command": _MATCHERS,
        "nekro_agent.systems": (),
        "nekro_agent.libs": (),
        "nekro_agent.tools": (),
        "nekro_agent.tools.at_markup": (
            "nekro_core.chat.mentions:normalize_at_markup",
            "nekro_core.chat.mentions:split_at_markup",
        ),
        "nekro_agent.tools.common_util": (f"{_COMPAT}.tools.common_util",),
        "nekro_agent.tools.file_utils": (
            "nekro_core.plugins.authoring.files:BoxFileSystem as FileSystem",
        ),
        "nekro_agent.tools.onebot_util": _ONEBOT_UTIL,
        "nekro_agent.tools.path_convertor": (f"{_COMPAT}.tools.path_convertor",),
        # Our own store behind the names of Qdrant's client. Where the real package is installed, it
        # goes first: our store takes its objects too.
        "qdrant_client": (f"{_API}.vectors:AsyncQdrantClient", f"{_API}.vectors:models"),
        "qdrant_client.async_qdrant_client": (f"{_API}.vectors:AsyncQdrantClient",),
        "qdrant_client.http": (f"{_API}.vectors:models",),
        "qdrant_client.http.exceptions": (f"{_API}.vectors:VectorError as UnexpectedResponse",),
        "qdrant_client.http.models": ("nekro_core.compat.qdrant.models",),
        "qdrant_client.models": ("nekro_core.compat.qdrant.models",),
    }
)
