"""A table of the modules that plugins for nekro-agent import. Each entry lists the names in a
module and the objects of nekro-core behind them.

To offer another module, add an entry. In an entry, a line ``module`` offers all names in the
``__all__`` of a module of nekro-core. ``module:Name`` offers one name of it, and
``module:Name as other`` offers this name as ``other``. ``module as name`` offers the module itself.
"""

from collections.abc import Mapping
from types import MappingProxyType


def _of(module: str, names: str) -> tuple[str, ...]:
    """Make a line ``module:Name`` for each name in ``names``."""
    return tuple(f"{module}:{name}" for name in names.split())


_AUTHORING = "nekro_core.plugins.authoring"
_RESPONSE = f"{_AUTHORING}.command_response"
_TASKS = f"{_AUTHORING}.tasks"
_COMPAT = "nekro_core.compat.nekro_agent"
_SEGMENTS = "nekro_core.compat.nekro_agent.agent_segments"
_LEGACY_MESSAGE = "nekro_core.compat.nekro_agent.legacy_segments"
_MODELS = f"{_COMPAT}.models"
_VECTORS = "nekro_core.compat.qdrant"
_VECTOR_CLASS = f"{_VECTORS}.client:AsyncQdrantClient"
_CONTEXT = f"{_COMPAT}.context:LegacyAgentCtx as AgentCtx"
_TIMER = "nekro_core.plugins.timers.functions"
_RECURRING_TIMER = "nekro_core.plugins.timers.recurring_functions"
_I18N = (
    *_of("nekro_core.chat.catalogue", "LANGUAGES Catalogue preferred"),
    *_of("nekro_core.chat.catalogue.languages", "I18nDict SupportedLang get_text i18n_text"),
)
_SIGNAL = (f"{_AUTHORING}.declarations:MsgSignal",)
_CORE_CONFIG = (*_of(f"{_COMPAT}.core", "CoreConfig config"), f"{_MODELS}.groups:ModelConfigGroup")
_LOGGERS = _of(f"{_COMPAT}.core", "get_sub_logger logger")
_MATCHERS = _of(f"{_COMPAT}.onebot", "command_guard finish_with on_command reset_command_guard")
_ONEBOT_UTIL = _of(
    f"{_COMPAT}.onebot",
    "get_chat_info get_chat_info_old get_user_avatar get_user_group_card_name get_user_name",
)
_RUN_CODE = (f"{_COMPAT}.limited_run_code:limited_run_code",)
_MESSAGE_SERVICE = f"{_COMPAT}.message_service:message_service"
_CHAT_SERVICES = (
    f"{_MESSAGE_SERVICE} as chat_service",
    f"{_MESSAGE_SERVICE} as universal_chat_service",
)
_SEND_SEGMENTS = (
    f"{_LEGACY_MESSAGE}:ChatType",
    *_of(
        f"{_COMPAT}.platform_values",
        "PlatformAtSegment PlatformChannel PlatformSendRequest PlatformSendResponse "
        "PlatformSendSegment PlatformSendSegmentType",
    ),
)
_VECTOR_CLIENT = _of(f"{_VECTORS}.functions", "get_qdrant_client get_qdrant_config")
_PLATFORM_NAMES = (
    f"{_COMPAT}.platform_values:PlatformUser",
    f"{_COMPAT}.platform:LegacyAdapter as BaseAdapter",
)
_AGENT_SEGMENTS = _of(_SEGMENTS, "AgentMessageSegment AgentMessageSegmentType MessageContent")
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
    f"{_COMPAT}.plugin:LegacyNekroPlugin as NekroPlugin",
    f"{_AUTHORING}.config:ConfigBase",
    f"{_AUTHORING}.config:ExtraField",
    f"{_AUTHORING}.declarations:SandboxMethod",
    f"{_AUTHORING}.declarations:SandboxMethodType",
    f"{_AUTHORING}.plugin:PluginStore",
    f"{_COMPAT}.core:CoreConfig",
)

_PLUGIN = (
    *_of(
        _RESPONSE,
        "CmdCtl CommandOutputSegment CommandOutputType CommandResponse CommandStatus",
    ),
    *_of(f"{_AUTHORING}.commands", "CommandExecutionContext CommandGroup"),
    *_of(f"{_AUTHORING}.config", "ConfigBase ConfigError ExtraField"),
    *_of(f"{_AUTHORING}.declarations", "SandboxMethod SandboxMethodType"),
    f"{_COMPAT}.plugin:LegacyNekroPlugin as NekroPlugin",
    f"{_AUTHORING}.plugin:NotLoaded",
    f"{_AUTHORING}.plugin:PluginStore",
    *_of(_TASKS, "AsyncTaskHandle TaskCtl TaskSignal WaitCancelled"),
    "nekro_core.plugins.commands.arguments:Arg",
    *_of("nekro_core.plugins.host.dynamic_import", "PackageWanted dynamic_import_pkg"),
    "nekro_core.plugins.tasks.functions:task",
    *_of("nekro_core.plugins.tasks.runner", "TaskRefused TaskRunner"),
    "nekro_core.policy.permissions:CommandPermission",
    "nekro_core.system.errors:NekroError",
    "nekro_core.tools.outcome:ToolFailure",
)

FACADES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nekro_agent": (),
        "nekro_agent.api": (),
        "nekro_agent.api.core": (
            *_CORE_CONFIG,
            *_LOGGERS,
            *_VECTOR_CLIENT,
        ),
        "nekro_agent.api.i18n": _I18N,
        "nekro_agent.api.message": (
            *_of(
                f"{_COMPAT}.message_functions",
                "download_from_url push_system send_file send_image send_text",
            ),
            f"{_COMPAT}.legacy_message:LegacyChatMessage as ChatMessage",
            f"{_COMPAT}.message_service:message_service",
            *_AGENT_SEGMENTS,
        ),
        "nekro_agent.api.plugin": _PLUGIN,
        "nekro_agent.api.recurring_timer": (_RECURRING_TIMER,),
        "nekro_agent.api.schemas": (
            _CONTEXT,
            f"{_AUTHORING}.files:BoxFileSystem",
            f"{_AUTHORING}.found_messages:FoundMessage",
            f"{_AUTHORING}.found_messages:MessageMatches",
            f"{_AUTHORING}.memory:ChatMemory",
            f"{_AUTHORING}.memory:ChatNote",
            f"{_AUTHORING}.memory:KnowledgeEntry",
            f"{_AUTHORING}.web:WebhookRequest",
            *_AGENT_SEGMENTS,
            *_CHAT_MESSAGE,
        ),
        "nekro_agent.api.signal": _SIGNAL,
        "nekro_agent.api.timer": (_TIMER,),
        "nekro_agent.core": (
            f"{_COMPAT}.core:logger",
            f"{_COMPAT}.core:config",
            f"{_COMPAT}.core:OsEnv",
        ),
        "nekro_agent.core.bot": (f"{_COMPAT}.platform:get_bot",),
        "nekro_agent.core.config": _CORE_CONFIG,
        "nekro_agent.core.core_utils": _of(f"{_AUTHORING}.config", "ConfigBase ExtraField"),
        "nekro_agent.core.logger": _LOGGERS,
        "nekro_agent.core.os_env": _of(
            f"{_COMPAT}.core", "DATA_DIR OsEnv PLUGIN_DATA_DIR USER_UPLOAD_DIR WORKDIR_PLUGIN_DIR"
        ),
        "nekro_agent.core.vector_db": _VECTOR_CLIENT,
        "nekro_agent.schemas": (),
        "nekro_agent.schemas.agent_ctx": (
            _CONTEXT,
            f"{_AUTHORING}.web:WebhookRequest",
        ),
        "nekro_agent.schemas.agent_message": _AGENT_SEGMENTS,
        "nekro_agent.schemas.chat_message": _CHAT_MESSAGE,
        "nekro_agent.schemas.i18n": _I18N,
        "nekro_agent.schemas.message": (f"{_COMPAT}.web_users:Ret",),
        "nekro_agent.schemas.signal": _SIGNAL,
        "nekro_agent.services": (),
        "nekro_agent.services.agent": (),
        "nekro_agent.services.agent.creator": _of(
            f"{_MODELS}.messages", "ContentSegment OpenAIChatMessage"
        ),
        "nekro_agent.services.agent.resolver": _of(
            f"{_COMPAT}.limited_run_code", "ParsedCodeRunData parse_chat_response"
        ),
        "nekro_agent.services.agent.run_agent": _RUN_CODE,
        "nekro_agent.services.chat": _CHAT_SERVICES,
        "nekro_agent.services.chat.universal_chat_service": _CHAT_SERVICES,
        "nekro_agent.services.config_service": (f"{_COMPAT}.settings_services:ConfigService",),
        "nekro_agent.services.agent.openai": _of(
            f"{_MODELS}.functions",
            "OpenAIResponse gen_openai_chat_response gen_openai_embeddings",
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
        "nekro_agent.services.plugin.collector": _of(
            f"{_COMPAT}.core", "PluginCollector plugin_collector"
        ),
        "nekro_agent.services.plugin.manager": (f"{_COMPAT}.settings_services:save_plugin_config",),
        "nekro_agent.services.sandbox": (),
        "nekro_agent.services.sandbox.executor": _RUN_CODE,
        "nekro_agent.services.sandbox.runner": _RUN_CODE,
        "nekro_agent.services.user": (),
        "nekro_agent.services.user.deps": _of(
            f"{_COMPAT}.web_users",
            "get_current_active_user get_current_super_user get_current_user",
        ),
        "nekro_agent.services.user.perm": (
            f"{_COMPAT}.web_users:LegacyRole as Role",
            *_of(f"{_COMPAT}.web_users", "check_role require_role"),
        ),
        "nekro_agent.services.plugin.packages": (
            "nekro_core.plugins.host.dynamic_import:dynamic_import_pkg",
        ),
        "nekro_agent.services.plugin.schema": _BASE,
        "nekro_agent.services.plugin.task": (
            *_of(_TASKS, "AsyncTaskHandle TaskCtl TaskSignal"),
            "nekro_core.plugins.tasks.runner:TaskRunner",
            "nekro_core.plugins.tasks.functions:task",
        ),
        "nekro_agent.services.timer": (),
        "nekro_agent.services.timer.timer_service": (
            f"{_COMPAT}.timer_service",
            f"{_COMPAT}.timer_service as timer_service",
            f"{_TIMER}:TimerTask",
        ),
        "nekro_agent.services.timer.recurring_timer_service": (
            _RECURRING_TIMER,
            f"{_RECURRING_TIMER} as recurring_timer_service",
        ),
        "nekro_agent.models": (),
        "nekro_agent.models.db_chat_channel": (
            *_of(f"{_COMPAT}.rows.chats", "ChannelStatus DBChatChannel"),
            f"{_COMPAT}.rows.presets:DefaultPreset",
            f"{_LEGACY_MESSAGE}:ChatType",
        ),
        "nekro_agent.models.db_chat_message": (f"{_COMPAT}.rows.messages:DBChatMessage",),
        "nekro_agent.models.db_exec_code": _of(
            f"{_COMPAT}.rows.plugin_data", "DBExecCode ExecStopType"
        ),
        "nekro_agent.models.db_plugin_data": (f"{_COMPAT}.rows.plugin_data:DBPluginData",),
        "nekro_agent.models.db_preset": (f"{_COMPAT}.rows.presets:DBPreset",),
        "nekro_agent.models.db_user": (f"{_COMPAT}.rows.users:DBUser",),
        "nekro_agent.adapters": (),
        "nekro_agent.adapters.interface": (
            *_PLATFORM_NAMES,
            *_SEND_SEGMENTS,
        ),
        "nekro_agent.adapters.interface.base": (
            f"{_COMPAT}.platform:LegacyAdapter as BaseAdapter",
        ),
        "nekro_agent.adapters.interface.schemas": (),
        "nekro_agent.adapters.interface.schemas.platform": (
            f"{_COMPAT}.platform_values:PlatformUser",
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
        "nekro_agent.tools.image_utils": (f"{_COMPAT}.tools.image_utils",),
        "nekro_agent.tools.onebot_util": _ONEBOT_UTIL,
        "nekro_agent.tools.path_convertor": (f"{_COMPAT}.tools.path_convertor",),
        # The bot's vector store, with the names of Qdrant's client. If the real package is
        # installed, it is imported instead. The bot's store also accepts the objects of the real
        # package.
        "qdrant_client": (
            *_of(f"{_VECTORS}.client", "AsyncQdrantClient QdrantClient"),
            f"{_VECTORS}.models as models",
        ),
        "qdrant_client.qdrant_client": (f"{_VECTORS}.client:QdrantClient",),
        "qdrant_client.async_qdrant_client": (_VECTOR_CLASS,),
        "qdrant_client.http": (f"{_VECTORS}.models as models",),
        "qdrant_client.http.exceptions": (
            "nekro_core.store.vectors:VectorError as UnexpectedResponse",
        ),
        "qdrant_client.http.models": (f"{_VECTORS}.models",),
        "qdrant_client.models": (f"{_VECTORS}.models",),
    }
)
