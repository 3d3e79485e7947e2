"""The texts of the console's pages exist in all languages, with the same placeholders."""

import string

from nekro_core.app.app import App
from nekro_core.chat.catalogue import LANGUAGES
from nekro_core.console.chat_messages import NEED_DETAIL
from nekro_core.console.pages import PAGES
from nekro_core.console.texts import console_texts
from nekro_core.llm.probe.texts import ADVICE, TEXTS
from nekro_core.plugins.installation.attempts import DEEDS
from nekro_core.plugins.installation.bot_follower import InstallStage
from nekro_core.plugins.installation.inspection import ABILITIES
from nekro_core.store import DecisionReason

PHASES = ("database", "files", "check", "restore")
"""The phases of `BackupProgress`."""


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_text_exists_in_all_languages_with_the_same_placeholders() -> None:
    english = console_texts().keys("en")
    for language in LANGUAGES:
        other = console_texts().keys(language)
        assert other.keys() == english.keys(), language
        for key, text in other.items():
            assert placeholders(text) == placeholders(english[key]), (language, key)
            assert text.strip(), (language, key)


def test_every_reason_of_a_decision_has_a_sentence_in_each_language() -> None:
    told = {
        f"chats.why_{reason.value}{some}" for reason in DecisionReason for some in ("", "_some")
    }
    for language in LANGUAGES:
        found = told & console_texts().keys(language).keys()
        assert {f"chats.why_{each.value}" for each in DecisionReason} <= found, language
        assert {f"chats.why_{each}_some" for each in NEED_DETAIL} <= found, language
    assert {each.value for each in DecisionReason} >= NEED_DETAIL


def test_english_messages_of_lower_rooms_are_repeated_unchanged_in_the_consoles_texts() -> None:
    english = console_texts().keys("en")
    told = {f"probe.{code}": text for code, text in TEXTS.items()}
    told |= {f"probe.advice_{code}": text for code, text in ADVICE.items()}
    told |= {f"abilities.{code}": text for code, text in ABILITIES.items()}
    assert told == {key: english[key] for key in told}
    codes = {f"jobs.step_{stage.value}" for stage in InstallStage}
    codes |= {f"abilities.tried_{deed}" for deed in (*DEEDS.values(), "starts", "changes")}
    codes |= {f"jobs.step_backup_{phase}" for phase in PHASES}
    assert codes <= english.keys()


def test_every_page_has_a_name_in_the_navigation() -> None:
    english = console_texts().keys("en")
    for page in PAGES:
        assert f"frame.page_{page.name or 'home'}" in english
        assert not page.group or f"frame.group_{page.group}" in english


def test_every_long_action_has_a_name_in_the_list_of_jobs(app: App) -> None:
    english = console_texts().keys("en")
    for name, each in app.operations.operations().items():
        if each.declaration.acts and each.declaration.long:
            assert f"jobs.action_{name.replace('.', '_')}" in english
