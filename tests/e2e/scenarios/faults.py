"""A scenario in which the model cannot be reached."""

from tests.e2e.scenarios.scenario import Subject
from tests.e2e.scenarios.scene import Scene
from tests.peers.scripted_model import Answer

faults = Subject("faults")
AWAY = Answer(status=503, error={"message": "overloaded"})


@faults.scenario(71, modes=("code", "", "tools"))
async def the_model_is_away_and_comes_back(scene: Scene) -> None:
    stops = "finished|model_unreachable"
    async with scene.part(71, could=1, why="the reply after it is back", stops=stops):
        scene.give(AWAY)
        await scene.ask("Lin", "Are you there?")
        scene.says("cannot reach my model")
        scene.give(AWAY)
        await scene.ask("小明", "你好，你在吗？今天天气怎么样？")
        assert any("\u4e00" <= sign <= "\u9fff" for sign in scene.told), scene.told
        scene.give("I am back.")
        await scene.ask("Lin", "And now?")
        scene.says("I am back")
