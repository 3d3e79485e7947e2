"""Adapters and plugins may import exactly the names that are listed here."""

import importlib
from types import ModuleType

import pytest

EXPORTS = {
    "adapter": [
        "AccountConnector",
        "AccountError",
        "AccountExists",
        "AccountLocked",
        "AccountManager",
        "AccountMonitor",
        "AccountSettingsStore",
        "AccountState",
        "AccountStatus",
        "Activity",
        "Adapter",
        "AdapterEraser",
        "AdapterFactory",
        "AdapterTasks",
        "BundleLimits",
        "CannotDo",
        "Capabilities",
        "ConnectionHint",
        "ConnectionProblem",
        "ConnectionTest",
        "ConnectionTestFailed",
        "ContactRequest",
        "ContactRequestKind",
        "ContactRequestState",
        "DeliveryRow",
        "Expected",
        "HintField",
        "HintSnippet",
        "Host",
        "InvalidAccountSettings",
        "KeyedLimiter",
        "KeyedQueue",
        "MatcherDecision",
        "MediaKeeper",
        "MediaLinker",
        "NekroError",
        "OPEN_STATES",
        "OperatorHost",
        "OperatorPageFactory",
        "OutboxActions",
        "Page",
        "Person",
        "PersonTraces",
        "PictureLimits",
        "PictureType",
        "PlatformAccounts",
        "PlatformMessage",
        "PluginShown",
        "PluginsShown",
        "Prefetch",
        "RateWindow",
        "Recorded",
        "ShownSettings",
        "SignRefused",
        "StoreUnavailable",
        "StoredAccounts",
        "StyledPart",
        "SupportsAccounts",
        "SupportsConfirmation",
        "SupportsEditing",
        "SupportsReactions",
        "SupportsRequests",
        "SupportsTyping",
        "TextStyle",
        "ToolAnswer",
        "ToolService",
        "TrafficCount",
        "UncertainDelivery",
        "UnknownAccount",
        "VoiceFormat",
        "VoiceLimits",
        "Working",
        "accept_patiently",
        "dispatch_event",
        "has_matchers",
        "html_from_markdown",
        "match_delivery",
        "plain_from_markdown",
        "request_id_of",
        "styled_text",
        "tables_as_code",
        "write_whole",
    ],
    "core": ["logger"],
    "i18n": [
        "Catalogue",
        "I18nDict",
        "LANGUAGES",
        "SupportedLang",
        "get_text",
        "i18n_text",
        "preferred",
    ],
    "message": [
        "ChatMessage",
        "download_from_url",
        "push_system",
        "send_file",
        "send_image",
        "send_text",
    ],
    "plugin": [
        "Arg",
        "AsyncTaskHandle",
        "CmdCtl",
        "CommandExecutionContext",
        "CommandGroup",
        "CommandOutputSegment",
        "CommandOutputType",
        "CommandPermission",
        "CommandResponse",
        "CommandStatus",
        "ConfigBase",
        "ConfigError",
        "ExtraField",
        "NekroError",
        "NekroPlugin",
        "NotLoaded",
        "PackageWanted",
        "PluginStore",
        "SandboxMethod",
        "SandboxMethodType",
        "TaskCtl",
        "TaskRefused",
        "TaskRunner",
        "TaskSignal",
        "ToolFailure",
        "WaitCancelled",
        "dynamic_import_pkg",
        "task",
    ],
    "reactive": [
        "AsyncCell",
        "BadInput",
        "CellState",
        "Circle",
        "CommandTimeout",
        "Computed",
        "ExecResult",
        "FetchFailed",
        "Glimpse",
        "LoopTooLong",
        "ModelTool",
        "NoScope",
        "NotHere",
        "OutputMissing",
        "ReactiveError",
        "Readable",
        "Resources",
        "SandboxHandle",
        "Scope",
        "Signal",
        "TextCell",
        "Unreadable",
        "Written",
        "batch",
        "cell",
        "computed",
        "exec_",
        "fetch_data",
        "generate_text",
        "idle",
        "load",
        "read_sandbox_file",
        "sandbox",
        "scope",
        "settled",
        "write_sandbox_file",
    ],
    "schemas": [
        "AgentCtx",
        "AgentMessageSegment",
        "AgentMessageSegmentType",
        "BoxFileSystem",
        "ChatMemory",
        "ChatMessageSegment",
        "ChatMessageSegmentAt",
        "ChatMessageSegmentFile",
        "ChatMessageSegmentForward",
        "ChatMessageSegmentImage",
        "ChatMessageSegmentJsonCard",
        "ChatMessageSegmentPoke",
        "ChatMessageSegmentType",
        "ChatNote",
        "ChatType",
        "FoundMessage",
        "KnowledgeEntry",
        "MessageContent",
        "MessageMatches",
        "WebhookRequest",
    ],
    "secrets": ["ComparedSecret", "kept_secret", "secret_file"],
    "signal": ["MsgSignal"],
    "speech": [
        "EngineUnavailable",
        "Speaker",
        "Speech",
        "SpeechError",
        "TextUnspeakable",
        "VoiceInfo",
        "VoiceUnknown",
    ],
    "turn_log": ["LoggedTurn", "Step", "TurnLog", "Usage"],
}


def module(name: str) -> ModuleType:
    return importlib.import_module(f"nekro_core.api.{name}")


@pytest.mark.parametrize("name", EXPORTS)
def test_each_module_exports_its_listed_names(name: str) -> None:
    assert sorted(module(name).__all__) == EXPORTS[name]
    assert all(hasattr(module(name), each) for each in EXPORTS[name])


OLD_NAMES = {
    "adapter": {
        "Confirming": "SupportsConfirmation",
        "Doubt": "UncertainDelivery",
        "Editing": "SupportsEditing",
        "Lanes": "KeyedQueue",
        "Reading": "Prefetch",
        "Serving": "AdapterTasks",
        "Shown": "PlatformMessage",
        "ToolDesk": "ToolService",
        "judged": "match_delivery",
    },
    "chat": {"NEW_BEGINNING": "CONVERSATION_RESET"},
}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [(name, old, new) for name, olds in OLD_NAMES.items() for old, new in olds.items()],
)
def test_an_old_name_gives_the_same_object_and_warns(name: str, old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} since") as warned:
        exec(f"from nekro_core.api.{name} import {old} as it", found := {})
    assert found["it"] is getattr(module(name), new)
    assert {each.filename for each in warned} == {"<string>"}


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"nekro_core\.api\.adapter.*Nothing"):
        _ = module("adapter").Nothing


def test_api_chat_exports_every_public_name_of_chat() -> None:
    room = importlib.import_module("nekro_core.chat")
    assert all(getattr(module("chat"), each) is getattr(room, each) for each in room.__all__)


def test_a_text_is_chosen_by_language() -> None:
    i18n = module("i18n")
    text = i18n.i18n_text(zh_CN="你好", en_US="hello")
    assert text == {"zh-CN": "你好", "en-US": "hello"}
    assert i18n.get_text(text, "-", "zh-CN") == "你好"
    assert i18n.get_text(text, "-", "fr-FR") == "hello"
    assert i18n.get_text(None, "-") == "-"
    assert i18n.get_text("plain", "-") == "plain"
