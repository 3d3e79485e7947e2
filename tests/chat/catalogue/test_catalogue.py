"""Every sentence exists in every language, with the same placeholders."""

import string

import pytest

from nekro_core.chat.catalogue import LANGUAGES, Catalogue, language_of


def placeholders(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_sentences(language: str) -> None:
    catalogue = Catalogue.load()
    english, here = catalogue.keys("en"), catalogue.keys(language)
    assert here.keys() == english.keys()
    for key, sentence in english.items():
        assert placeholders(here[key]) == placeholders(sentence), key
        assert here[key].strip()


def test_a_sentence_is_returned_in_the_requested_language() -> None:
    catalogue = Catalogue.load()
    assert catalogue.say("turn.stopped", "en") == "Stopped."
    assert catalogue.say("turn.stopped", "zh-CN") == "已停止。"
    assert catalogue.say("turn.stopped", "ja_JP") == "停止しました。"
    assert catalogue.say("turn.stopped", "fr") == "Stopped."
    assert "7" in catalogue.say("limit.steps", "ja", limit=7)


def test_placeholders_inside_a_value_are_not_filled() -> None:
    catalogue = Catalogue({"en": {"key": "{value}"}})
    assert catalogue.say("key", value="{value.__class__} {0}") == "{value.__class__} {0}"


def test_an_unknown_key_raises_key_error() -> None:
    with pytest.raises(KeyError):
        Catalogue.load().say("no.such.key")


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        ([], "en"),
        (["hello", "Привет"], "en"),
        (["你好"], "zh"),
        (["元気"], "zh"),
        (["元気", "ですか"], "ja"),
        (["hello", "カード"], "ja"),
    ],
)
def test_the_language_is_recognized_by_the_script(texts: list[str], language: str) -> None:
    assert language_of(texts) == language


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 messages wait"),
        (1, "1 message waits"),
        ("1", "1 message waits"),
        (2, "2 messages wait"),
        ("1,000+", "1,000+ messages wait"),
    ],
)
def test_a_placeholder_chooses_between_singular_and_plural(count: object, said: str) -> None:
    text = "{count} {count:message waits|messages wait}"
    assert Catalogue({"en": {"wait": text}}).say("wait", count=count) == said
