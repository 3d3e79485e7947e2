"""Draws a form of how the bot behaves in a chat. Each field is saved separately."""

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from nekro_core.chat import ChatKey
from nekro_core.console.chat_people import QUOTAS
from nekro_core.console.view import View
from nekro_core.operator.chat_policy import ChatPolicyView
from nekro_core.operator.errors import InvalidParameters, OperatorError
from nekro_core.operator.roles import AccessRole
from nekro_core.policy import ChatState
from nekro_core.policy.participation import Participation
from nekro_core.system.errors import NekroError

_LOOK_S = 5.0
_Inputs = Mapping[str, ValidationElement[Any]]


async def draw_policy(view: View, chat_key: ChatKey) -> None:
    """Draw the form."""
    form = _PolicyForm(view, chat_key)
    await form.begin()


class _PolicyForm:
    """The form. If somebody else changes the policy, the typed values stay and the person is told.
    Saving is then refused until the page has read the new policy."""

    def __init__(self, view: View, chat_key: ChatKey) -> None:
        self._view, self._chat_key = view, chat_key
        self._revision = ""
        with ui.element("div").classes("nc-row") as self._notice:
            ui.label(view.say("chats.policy_changed")).classes("nc-bad").props('role="alert"')
            again = ui.button(view.say("chats.read_again"), on_click=self._read)
            again.props("flat dense no-caps")
        self._notice.set_visibility(False)
        self._fields = ui.element("div").classes("nc-list")

    async def begin(self) -> None:
        """Draw the fields, and check for other people's changes while the page is open."""
        await self._read()
        ui.timer(_LOOK_S, self._look, immediate=False)

    async def _look(self) -> None:
        policy = await self._view.operator.chats.policy(self._view.actor, chat_key=self._chat_key)
        self._notice.set_visibility(policy.revision != self._revision)

    async def _read(self) -> None:
        view = self._view
        policy = await view.operator.chats.policy(view.actor, chat_key=self._chat_key)
        models = [each.group for each in await view.operator.models.all(view.actor)]
        personas = [each.name for each in await view.operator.personas.all(view.actor)]
        self._revision = policy.revision
        self._notice.set_visibility(False)
        self._fields.clear()
        with self._fields:
            self._draw(policy, models, personas)

    def _draw(self, policy: ChatPolicyView, models: list[str], personas: list[str]) -> None:
        say, own = self._view.say, policy.own
        states = {each.value: say(f"chats.state_{each.value}") for each in ChatState}
        self._choice(policy, "state", states, policy.state.value)
        persona = ui.textarea().props("outlined dense autogrow")
        self._typed(policy, "persona", persona, own.get("persona") or "", lambda text: text)
        self._choice(policy, "persona_name", personas, policy.persona_name)
        ui.label(policy.persona[:600]).classes("nc-soft nc-small nc-text")
        self._listed(policy, "names", policy.names)
        chosen = str(own.get("model", ""))
        chain = [chosen] if "," in chosen else []  # several models, set by a chat command
        self._choice(policy, "model", [*models, *chain], chosen)
        ui.label(say("chats.model_now", model=policy.model)).classes("nc-soft nc-small")
        self._choice(policy, "mode", ["code", "tools"], policy.mode)
        answers = {True: say("chats.yes"), False: say("chats.no")}
        self._choice(policy, "private", answers, policy.private)
        modes = {each.value: say(f"chats.participation_{each.value}") for each in Participation}
        self._choice(policy, "participation", modes, policy.participation.value)
        typing = {each: say(f"chats.typing_{each}") for each in ("auto", "off")}
        self._choice(policy, "typing", typing, own.get("typing"))
        emoji, pace = (ui.input().props("outlined dense") for _ in range(2))
        self._typed(policy, "seen_emoji", emoji, own.get("seen_emoji", ""), lambda text: text)
        self._typed(policy, "pace_chars_s", pace, str(own.get("pace_chars_s", "")), _number)
        self._quota(policy, "chat_quota", policy.chat_quota)
        self._quota(policy, "person_quota", policy.person_quota)
        commands = "\n".join(f"{name} = {each}" for name, each in policy.commands.items())
        self._typed(
            policy, "commands", ui.textarea().props("outlined dense autogrow"), commands, _pairs
        )
        self._listed(policy, "operators", policy.operators)
        self._listed(policy, "ignore", policy.ignored)

    def _choice(self, policy: ChatPolicyView, field: str, options: Any, value: Any) -> None:
        with self._frame(policy, field):
            known = value in options
            select = ui.select(
                options, value=value if known else None, label=self._view.say(f"chats.f_{field}")
            )
            select.props("outlined dense").classes("nc-wide")
            self._editable(select)
            if self._view.may(AccessRole.OPERATOR):
                select.on_value_change(lambda event: self._put(field, event.value, {"": select}))

    def _listed(self, policy: ChatPolicyView, field: str, values: Any) -> None:
        self._typed(
            policy,
            field,
            ui.input().props("outlined dense"),
            ", ".join(values),
            lambda text: [each.strip() for each in text.split(",") if each.strip()],
        )

    def _typed(
        self,
        policy: ChatPolicyView,
        field: str,
        box: "ui.input | ui.textarea",
        value: str,
        read: Callable[[str], Any],
    ) -> None:
        with self._frame(policy, field) as frame:
            box.move(frame, target_index=0)
            box.props["label"] = self._view.say(f"chats.f_{field}")
            box.value = value
            box.classes("nc-wide")
            self._editable(box)

            async def save() -> None:
                try:
                    given = read(box.value or "")
                except OperatorError as error:
                    _tell(box, str(error))
                    return
                await self._put(field, given, {"": box})

            self._save_button(save)

    def _quota(self, policy: ChatPolicyView, field: str, quota: dict[str, Any]) -> None:
        with self._frame(policy, field), ui.element("div").classes("nc-row"):
            ui.label(self._view.say(f"chats.f_{field}")).classes("nc-wide nc-small")
            boxes: dict[str, ValidationElement[Any]] = {}
            for name in QUOTAS:
                box = ui.number(self._view.say(f"chats.quota_{name}"), value=quota.get(name))
                boxes[name] = box.props("outlined dense").classes("nc-grow")
                self._editable(box)

            async def save() -> None:
                given = {name: box.value for name, box in boxes.items() if box.value is not None}
                await self._put(field, given, boxes)

            self._save_button(save)

    def _frame(self, policy: ChatPolicyView, field: str) -> ui.element:
        frame = ui.element("div").classes("nc-chat-field")
        if field in policy.own and self._view.may(AccessRole.OPERATOR):
            with frame:
                ui.button(
                    self._view.say("chats.use_general"),
                    on_click=lambda: self._put(field, None, {}),
                ).props("flat dense no-caps size=sm")
        return frame

    def _editable(self, box: ui.element) -> None:
        if not self._view.may(AccessRole.OPERATOR):
            box.props("readonly disable")

    def _save_button(self, save: Callable[[], Any]) -> None:
        if self._view.may(AccessRole.OPERATOR):
            ui.button(self._view.say("chats.save"), on_click=save).props("flat dense no-caps")

    async def _put(self, field: str, value: Any, boxes: _Inputs) -> None:
        """Save a field. ``boxes`` are the inputs of the field by name. If the value is refused, the
        problem of ``value.NAME`` is shown at the input NAME. Other problems are shown at the input
        with an empty name, or if there is none, as a message."""
        given = {
            "chat_key": str(self._chat_key),
            "field": field,
            "value": value,
            "revision": self._revision,
        }
        view = self._view

        def refused(error: NekroError) -> None:
            problems = error.problems if isinstance(error, InvalidParameters) else {}
            for name, problem in problems.items():
                box = boxes.get(name.removeprefix("value").lstrip("."), boxes.get(""))
                if box is None:
                    break
                _tell(box, problem)
            else:
                if problems:
                    return
            view.show_error(error)

        for box in boxes.values():
            box.error = None
        await view.perform(
            view.operator.chats.set_policy.invoke(view.actor, given),
            view.say("chats.policy_set"),
            refresh=self._read,
            refused=refused,
        )


def _tell(box: ValidationElement[Any], problem: str) -> None:
    """Show what is wrong at an input, and put the cursor there."""
    box.error = problem
    box.run_method("focus")


def _number(text: str) -> float:
    """Read a number. Raises `OperatorError`."""
    try:
        return float(text)
    except ValueError:
        raise OperatorError(f"{text[:80]!r}: expected a number such as 12") from None


def _pairs(text: str) -> dict[str, str]:
    """Read lines such as ``reset = advanced``. Raises `OperatorError`."""
    pairs = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, permission = line.partition("=")
        if not equals:
            raise OperatorError(f"{line[:80]!r}: expected a line such as 'reset = advanced'")
        pairs[name.strip()] = permission.strip()
    return pairs
