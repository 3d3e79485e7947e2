from nekro_agent.api import i18n
from nekro_agent.api.plugin import ConfigBase, ExtraField, NekroPlugin
from pydantic import Field

plugin = NekroPlugin(
    name="Sticker Book",
    module_name="sticker_book",
    description="Collects stickers in an sqlite book",
    version="0.2.0",
    author="mika",
    url="https://example.invalid/mika/sticker_book",
    support_adapter=["onebot_v11", "discord", "test"],
    i18n_name=i18n.i18n_text(zh_CN="贴纸本", en_US="Sticker Book"),
    i18n_description=i18n.i18n_text(zh_CN="把贴纸收进本子", en_US="Collects stickers"),
    allow_sleep=False,
)


@plugin.mount_config()
class StickerConfig(ConfigBase):
    SIZE: int = Field(
        default=32,
        title="Sticker size",
        json_schema_extra=ExtraField(
            i18n_title=i18n.i18n_text(zh_CN="大小", en_US="Sticker size"),
            i18n_description=i18n.i18n_text(zh_CN="像素", en_US="in pixels"),
        ).model_dump(),
    )
    MAX_PER_CHAT: int = Field(default=3, title="Max")


config = plugin.get_config(StickerConfig)
