"""The functions of `nekro_core.compat` accept calls as nekro-agent's plugins write them."""

import inspect
from typing import Any

import pytest

from nekro_core.api import i18n, llm, message, recurring_timer, timer
from nekro_core.api.plugin import Arg, CmdCtl, NekroPlugin, TaskCtl, dynamic_import_pkg, task
from nekro_core.compat.nekro_agent.context import LegacyAgentCtx
from nekro_core.compat.nekro_agent.message_service import message_service

P, ME = NekroPlugin, None
NAMED = {
    "name": "n",
    "module_name": "m",
    "description": "d",
    "version": "1",
    "author": "a",
    "url": "u",
    "support_adapter": [],
    "is_builtin": False,
    "is_package": False,
    "i18n_name": None,
    "i18n_description": None,
    "allow_sleep": None,
    "sleep_brief": "",
    "webui_path": None,
}
SENT = {"record": True, "ref_msg_id": None}
ASKED = {
    "model": "m",
    "messages": [],
    "temperature": None,
    "extra_body": None,
    "top_k": None,
    "api_key": None,
    "base_url": None,
    "proxy_url": None,
    "stream_mode": False,
    "max_wait_time": None,
}
CALLS: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = (
    (P, (), NAMED),
    (P, tuple(NAMED.values()), {}),
    (P.mount_sandbox_method, (ME, "tool", "n", "d"), {}),
    (P.mount_sandbox_method, (ME,), {"method_type": "tool", "name": "n", "description": "d"}),
    (P.mount_prompt_inject_method, (ME, "n", "d"), {}),
    (P.mount_command, (ME, "n", "d", ["a"], None, "u", "c", ["t"], False, {}, {}, {}), {}),
    (P.mount_command_group, (ME, "n", "d", None, "c", ["t"]), {}),
    (P.mount_webhook_method, (ME, "e", "n", "d"), {}),
    (P.mount_async_task, (ME, "t"), {}),
    (P.get_vector_collection_name, (ME,), {"key": "k"}),
    (P.get_config, (ME,), {}),
    (CmdCtl.wait, ("m", "c", ["o"], 60.0, "t", {}), {}),
    (CmdCtl.success, ("x",), {"data": 1}),
    (CmdCtl.failed, ({"zh-CN": "x"},), {}),
    (Arg, ("d",), {"default": 1, "positional": True, "choices": [1], "range": (1, 2)}),
    (TaskCtl.report_progress, ("m", 50), {}),
    (TaskCtl.success, ("m", {}), {}),
    (TaskCtl.fail, ("m", "e"), {}),
    (TaskCtl.cancel, ("m",), {}),
    (task.start, ("t", "i", "c", ME, 1), {"on_terminal": None, "more": 1}),
    (dynamic_import_pkg, ("x", "y"), {"mirror": None, "trusted_host": True, "repo_dir": None}),
    (message.send_text, ("c", "m", ME), SENT),
    (message.send_image, ("c", "m", ME), SENT),
    (message.send_file, ("c", "m", ME), SENT),
    (message.push_system, ("c", "m", None, True), {}),
    (message.download_from_url, ("u", ME), {}),
    (message_service.push_system_message, (), {"agent_messages": "x", "chat_key": "c"}),
    (timer.set_timer, ("c", 1, "e"), {}),
    (timer.set_temp_timer, ("c", 1, "e"), {}),
    (timer.clear_timers, ("c",), {"temporary": None}),
    (recurring_timer.create_cron_job, ("c", "x", "e", "UTC", "none", None), {}),
    (llm.gen_openai_chat_response, (), ASKED),
    (llm.gen_openai_embeddings, ("m", "i", "k", "b", 3), {}),
    (LegacyAgentCtx.create_by_chat_key, ("c", None, None, None), {}),
    (LegacyAgentCtx.create_by_chat_key, (), {"chat_key": "c", "container_key": None}),
    (LegacyAgentCtx.send_text, (ME, "c"), {"record": True}),
    (LegacyAgentCtx.push_system, (ME, "m"), {"trigger_agent": True}),
    (i18n.i18n_text, (), {"zh_CN": "x", "en_US": "y"}),
)


@pytest.mark.parametrize(
    ("call", "args", "kwargs"), CALLS, ids=[each.__qualname__ for each, _, _ in CALLS]
)
def test_the_arguments_of_a_call_are_accepted(
    call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    inspect.signature(call).bind(*args, **kwargs)
