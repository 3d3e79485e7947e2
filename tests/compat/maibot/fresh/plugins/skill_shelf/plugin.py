from pathlib import Path

from maibot_sdk import MaiBotPlugin

HERE = Path(__file__).parent / "skills"


class Shelf(MaiBotPlugin):
    async def on_load(self):
        self.ctx.logger.info("skills: %s", [p.stem for p in HERE.glob("*.md")])

    async def on_unload(self):
        return None

    async def on_config_update(self, scope: str, config_data: dict, version: str):
        return None

    def get_components(self):
        components = super().get_components()
        for path in sorted(HERE.glob("*.md")):
            components.append(
                {
                    "name": f"skill_{path.stem}",
                    "type": "TOOL",
                    "metadata": {
                        "description": f"How to make {path.stem}",
                        "brief_description": f"How to make {path.stem}",
                        "parameters": {
                            "minutes": {"type": "integer", "description": "How long", "default": 3}
                        },
                        "handler_name": f"__skill_{path.stem}",
                        "visibility": "visible",
                        "enabled": True,
                    },
                }
            )
        return components

    async def invoke_component(self, name: str, **kwargs):
        if name.startswith("skill_"):
            text = (HERE / f"{name[6:]}.md").read_text()
            return {
                "success": True,
                "content": text.format(minutes=kwargs.get("minutes", 3)).strip(),
            }
        return await super().invoke_component(name, **kwargs)


def create_plugin():
    return Shelf()
