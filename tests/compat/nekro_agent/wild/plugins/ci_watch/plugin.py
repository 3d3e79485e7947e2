from nekro_agent.api.plugin import ConfigBase, ExtraField, NekroPlugin
from pydantic import Field

plugin = NekroPlugin(
    name="CI 值班员",
    module_name="ci_watch",
    description="接收 CI 的 Webhook，失败时叫 AI 起来干活；支持后台重跑任务",
    version="1.4.0",
    author="devops_Kun",
    url="https://github.com/devops-kun/nekro-ci-watch",
    is_package=True,
)


@plugin.mount_config()
class CIConfig(ConfigBase):
    WEBHOOK_SECRET: str = Field(
        default="",
        title="Webhook 密钥",
        description="留空则不校验签名",
        json_schema_extra=ExtraField(is_secret=True).model_dump(),
    )
    QUIET_STATUS: list[str] = Field(default=["success", "pending"], title="不打扰 AI 的状态")
    RERUN_STEPS: int = Field(default=2, title="重跑步骤数")
    APPROVE_TIMEOUT: int = Field(default=60, title="审批超时（秒）")


config = plugin.get_config(CIConfig)
store = plugin.store
