from pydantic import Field

from nekro_agent.services.plugin.base import ConfigBase, NekroPlugin

plugin = NekroPlugin(
    name="群管",
    module_name="moderator",
    description="禁言与头衔",
    version="0.1.1",
    author="warden",
    url="https://github.com/example/moderator",
    support_adapter=["onebot_v11"],
)


@plugin.mount_config()
class ModeratorConfig(ConfigBase):
    MAX_SECONDS: int = Field(default=600, title="最长禁言秒数")


config = plugin.get_config(ModeratorConfig)
