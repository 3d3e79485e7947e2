"""Tools are found by requests in three languages, and listed in lines that cost few tokens."""

import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.cli.plugin_kit.check_report import token_counter
from nekro_core.tools.discovery import (
    VECTOR_NUMBERS,
    SentenceVectors,
    ToolIndex,
    brief_of,
    deferred_lines,
)
from nekro_core.tools.discovery.lexicon import ConceptLexicon
from nekro_core.tools.discovery.phonetics import sound_of_english, sound_of_katakana
from nekro_core.tools.discovery.summaries import CJK_TOKENS, LINE_TOKENS, estimate_tool_tokens
from nekro_core.tools.discovery.words import all_words, character_bigrams, cjk_runs, folded, stem
from nekro_core.tools.names import ToolSet, tool_set
from tests.tools.discovery.searches import (
    SETS,
    a_tool,
    known_tools,
    searches,
    searches_for_names,
    tuning_searches,
)

READ_BY_THE_LEXICON = ("", "_fourth")
FLOORS = dict.fromkeys(SETS, 43) | {"_seventh": 40}
"""How many searches of a set must find their tool among the first three results. The seventh set
has 72 searches, and each other set has 45."""


@pytest.fixture(scope="module")
def tools() -> ToolSet:
    return known_tools()


@pytest.fixture(scope="module")
def index(tools: ToolSet) -> ToolIndex:
    return ToolIndex(tools.named)


def first_three(index: ToolIndex, query: str, near: Sequence[float] = ()) -> list[str]:
    return [hit.named.tool.name for hit in index.search(query, 3, near)]


def test_every_expected_tool_exists() -> None:
    assert [len(searches(name)) for name in SETS] == [45] * 6 + [72]
    for name in SETS:
        assert {tool for _, tool in searches(name)} <= {
            each.name for each in known_tools(name).named
        }


@pytest.mark.parametrize("name", READ_BY_THE_LEXICON)
def test_words_alone_find_forty_of_forty_five_tools(index: ToolIndex, name: str) -> None:
    """If the encoder cannot run on a machine, the search uses only words."""
    missed = [each for each in searches(name) if each[1] not in first_three(index, each[0])]
    assert len(missed) <= 5, missed


@pytest.mark.long
async def test_words_and_meanings_together_reach_the_required_hits_in_every_set() -> None:
    missed: dict[str, list[str]] = {name: [] for name in SETS}
    async with aclosing(SentenceVectors(timeout_s=250)) as vectors:
        for name in SETS:
            index = ToolIndex(known_tools(name).named)
            for text, tool in searches(name):
                near = await vectors.of(text, index.sentences)
                assert len(near) == len(index.sentences)
                if tool not in first_three(index, text, near):
                    missed[name].append(text)
        for nothing_wanted in ("", "!!!", "the of and", "\ud800"):
            near = await vectors.of(nothing_wanted, index.sentences)
            assert index.search(nothing_wanted, 3, near) == []
    found = {name: len(searches(name)) - len(texts) for name, texts in missed.items()}
    assert all(found[name] >= floor for name, floor in FLOORS.items()), missed


async def test_a_failing_encoder_returns_no_vectors_and_is_not_called_again(
    index: ToolIndex,
) -> None:
    vectors = SentenceVectors(timeout_s=0.001)
    for _ in range(4):  # the last call must not start the encoder again
        assert list(await vectors.of("weather", index.sentences)) == []
    assert vectors._worker.pid is None
    assert list(await SentenceVectors().of("weather", ())) == []


def test_tools_with_a_similar_meaning_are_found_without_a_common_word() -> None:
    tools = tool_set([a_tool("apple", "Red."), a_tool("banana", "Bent."), a_tool("cherry", "Two.")])
    index = ToolIndex(tools.named)
    assert first_three(index, "crooked", [0.05, 0.6, 0.2]) == ["banana", "cherry"]
    # no tool has a meaning that is similar enough
    assert first_three(index, "crooked", [0.05, 0.25, 0.2]) == []
    assert first_three(index, "red", [0.3, 0.4]) == ["apple", "banana"]
    # the query is the name of the tool
    assert first_three(index, "cherry", [0.3, 0.9])[0] == "cherry"
    assert index.sentences[0] == "some: apple: Red."


def test_the_searches_used_for_tuning_still_find_their_tools(index: ToolIndex) -> None:
    cases = tuning_searches()
    missed = [query for query, tool in cases if tool not in first_three(index, query)]
    assert len(missed) <= len(cases) * 0.08, missed


@pytest.mark.parametrize(
    "query", ["get_weather_forecast", "get weather forecast", "weather.get_weather_forecast"]
)
def test_a_search_for_the_name_finds_the_tool_first(index: ToolIndex, query: str) -> None:
    assert first_three(index, query)[0] == "get_weather_forecast"


def test_a_query_that_fits_no_tool_finds_nothing(index: ToolIndex) -> None:
    for query in ("", "   ", "the of and", "!!!", "\ud800", "zzqqx"):
        assert index.search(query) == []
    assert ToolIndex(()).search("weather") == []


def test_traditional_and_simplified_characters_match(index: ToolIndex) -> None:
    assert first_three(index, "天氣預報") == first_three(index, "天气预报")
    assert "query_stock_quote" in first_three(index, "股價")


def test_camel_case_is_split_and_full_width_letters_are_normalized() -> None:
    named = tool_set([a_tool("getUserWeather", "Ｆｅｔｃｈ")]).named
    assert ToolIndex(named).search("weather")
    assert ToolIndex(named).search("fetch")
    assert all_words(folded("HTTPServerStatus")) == ["http", "serv", "statu"]


@pytest.mark.parametrize(
    ("wish", "tool"),
    [
        ("Pokémon", "pokemon_info"),
        ("wether forcast", "get_weather_forecast"),
        ("earthqake alerts", "subscribe_quake_alerts"),
    ],
)
def test_accents_and_typing_errors_are_tolerated(index: ToolIndex, wish: str, tool: str) -> None:
    assert tool in first_three(index, wish)


@pytest.mark.parametrize(
    ("katakana", "english"),
    [
        ("トレロ", "trello"),
        ("サーバーラック", "serverrack"),
        ("チャンネル", "channel"),
        ("ディスコード", "discord"),
        ("インスタグラム", "instagram"),
        ("スタックオーバーフロー", "stackoverflow"),
        ("リアクション", "reaction"),
        ("スクリーンショット", "screenshot"),
        ("ウィキペディア", "wikipedia"),
        ("カレンダー", "calendar"),
        ("パスワード", "password"),
        ("シミュレーション", "simulation"),
        ("スポーツ", "sports"),
    ],
)
def test_katakana_matches_the_english_word_by_its_sound(katakana: str, english: str) -> None:
    assert sound_of_katakana(katakana) == sound_of_english(english) != ""


def test_names_of_services_are_found_in_katakana() -> None:
    """Without a comparison of sounds, a search by words finds 11 of the 39 names."""
    index, cases = ToolIndex(known_tools("_seventh").named), searches_for_names()
    missed = [name for name, tool in cases if tool not in first_three(index, name)]
    assert len(cases) == 39
    assert len(missed) <= 18, missed


def test_a_name_that_is_not_in_the_lexicon_is_found_in_the_other_script() -> None:
    filler = [a_tool(f"two{number}", "Something else.") for number in range(20)]
    tools = [a_tool("one", "Ask Frobnitz."), a_tool("zwei", "ザーブレン です"), *filler]
    index = ToolIndex(tool_set(tools).named)
    assert first_three(index, "フロブニッツに聞いて")[0] == "one"
    assert first_three(index, "zurblen")[0] == "zwei"
    assert first_three(index, "ケト") == []  # this word is too short to be recognized


def test_a_tool_that_matches_all_words_ranks_above_one_that_matches_one_word_often() -> None:
    much = a_tool("zorble_zorble", "Zorble.", "zorble")
    all_of_it = a_tool("one", "Zorble a frobnicator.")
    filler = [a_tool(f"two{number}", "Something else.") for number in range(20)]
    index = ToolIndex(tool_set([much, all_of_it, *filler]).named)
    assert first_three(index, "zorble the frobnicator")[0] == "one"


def test_parameters_and_the_plugin_name_are_searched_too() -> None:
    plain = a_tool("one", "Do it.")
    named = tool_set([plain, replace(a_tool("two", "Do it.", "stocks"), details="about cheese")])
    assert [hit.named.name for hit in ToolIndex(named.named).search("cheese")] == ["two"]
    assert [hit.named.name for hit in ToolIndex(named.named).search("stock")] == ["two"]


@pytest.mark.parametrize(
    "alike",
    [
        ("translate", "translated", "translation", "translating", "translator"),
        ("search", "searching", "searches", "searched"),
        ("city", "cities"),
        ("recipe", "recipes"),
        ("running", "run"),
        ("sharper", "sharpen", "sharp"),
    ],
)
def test_forms_of_a_word_have_one_stem(alike: tuple[str, ...]) -> None:
    assert len({stem(each) for each in alike}) == 1, {each: stem(each) for each in alike}


def test_a_longer_word_of_the_lexicon_hides_shorter_words_inside_it() -> None:
    lines = ["== 1.0 things", "anime | 动画 | アニメ", "draw | 画 | 描く", "time", "local time"]
    lexicon = ConceptLexicon([*lines, "== 0.5 deeds", "time out, take a break", "read text"])

    def meant(text: str) -> dict[int, float]:
        return {n: much for _, found in lexicon.parts(folded(text)) for n, much in found.items()}

    assert meant("看動畫") == {0: 1.0}
    assert meant("画画") == {1: 0.5}  # a single character counts half
    assert meant("the local time") == {3: 1.0, 2: 0.5}
    assert meant("a time out") == {4: 0.5, 2: 0.5}
    assert meant("take a break") == {4: 0.5}
    assert meant("reading the text of it") == {5: 0.5}
    assert cjk_runs(folded("看動畫ok")) == ["看动画"]
    assert list(character_bigrams("天気です")) == ["天気", "気で"]
    assert all_words("a note to the band") == ["a", "note", "to", "the", "band"]


def test_the_lines_cost_less_than_twelve_tokens_for_each_tool(tools: ToolSet) -> None:
    tokens = token_counter()
    assert tokens.name == "o200k_base"
    for prefix in ("", "weather_plugin.", "mcp__server__"):
        lines = deferred_lines((prefix + each.name, each) for each in tools.named)
        assert len(lines) <= len(tools.named)
        # A prefix makes each line longer by its own tokens. Only English briefs are cut shorter to
        # make up for this.
        most = 11.5 + tokens.count(prefix)
        assert tokens.count("\n".join(lines)) < most * len(tools.named), prefix


CHINESE, JAPANESE = re.compile(r"[\u4e00-\u9fff]"), re.compile(r"[\u3041-\u30ff]")


def test_the_lines_of_a_chinese_set_cost_less_than_eighteen_tokens_for_each_tool() -> None:
    tokens = token_counter()
    assert tokens.name == "o200k_base"
    for name in ("", "_seventh"):
        chinese = [
            each
            for each in known_tools(name).named
            if CHINESE.search(brief_of(each.tool)) and not JAPANESE.search(brief_of(each.tool))
        ]
        assert len(chinese) >= 150
        for prefix, most in (("", 13), ("weather_plugin.", 16), ("mcp__server__", 18)):
            lines = deferred_lines((prefix + each.name, each) for each in chinese)
            assert len(lines) == len(chinese)
            assert tokens.count("\n".join(lines)) < most * len(chinese), prefix


@pytest.mark.parametrize("prefix", ["", "weather_plugin.", "mcp__server__"])
def test_at_least_twelve_characters_of_a_chinese_or_japanese_brief_are_shown(prefix: str) -> None:
    """An earlier version counted tokens here and cut some briefs to six characters."""
    seen = 0
    for each in known_tools("_seventh").named:
        brief = brief_of(each.tool)
        if not (CHINESE.search(brief) or JAPANESE.search(brief)):
            continue
        (line,) = deferred_lines([(prefix + each.name, each)])
        shown = line.removeprefix(f"{prefix}{each.name}: ")
        assert shown == brief or len(shown.removesuffix("…")) >= 12, line
        assert brief.startswith(shown.removesuffix("…"))
        seen += shown != brief
    assert seen > 100


def test_an_english_brief_does_not_end_in_a_word_without_meaning() -> None:
    told = "Find the pictures of the people who were at a party."
    (named,) = tool_set([a_tool("find_it", told)]).named
    assert deferred_lines([("find_it", named)]) == ["find_it: Find the pictures of the people…"]


def test_lines_are_cut_at_a_word() -> None:
    told = "Search for all members of the group who said something interesting in the last week."
    (named,) = tool_set([a_tool("find_it", told)]).named
    (line,) = deferred_lines([("find_it", named)])
    assert line.endswith("…")
    assert told.startswith(line.removeprefix("find_it: ").removesuffix("…"))
    assert told[len(line) - len("find_it: …")] == " "
    assert brief_of(named.tool) == told.rstrip(".")


@pytest.mark.parametrize("endless", ["d" * 4000, "AB" * 2000, "Dd" * 2000, "e" * 25])
def test_an_endless_word_in_a_description_does_not_fill_the_prompt(endless: str) -> None:
    """An untrusted MCP server may send any description."""
    (named,) = tool_set([a_tool("find_it", f"{endless}.")]).named
    assert deferred_lines([("find_it", named)]) == ["find_it"]
    (named,) = tool_set([a_tool(endless, "Finds it.")]).named
    (line,) = deferred_lines([(endless, named)])
    assert line == "some: 1 more"


def test_tools_with_long_names_and_tools_above_the_limit_are_counted_for_each_plugin() -> None:
    named = tool_set(
        [a_tool("a", "A."), a_tool("b" * 5 + "_c" * 40, "B."), a_tool("d", "D.")]
    ).named
    lines = deferred_lines(((each.name, each) for each in named), limit=1)
    assert lines == ["a: A", "some: 2 more"]


TEXTS = st.text(max_size=300) | st.text("ab天気てデ _.\n", max_size=300)


@given(TEXTS, st.text("abc_", min_size=1, max_size=20))
def test_any_description_becomes_one_short_line(description: str, name: str) -> None:
    (named,) = tool_set([a_tool("x", description)]).named
    (line,) = deferred_lines([(name, named)])
    assert "\n" not in line
    assert line.startswith((name, "some: 1 more"))
    # 3 tokens are for the colon, the ellipsis and the line end
    most = max(LINE_TOKENS, CJK_TOKENS + 3)
    assert estimate_tool_tokens(line) <= most + estimate_tool_tokens(name, name=True)


@given(
    TEXTS,
    st.lists(st.tuples(st.text("abc_天", max_size=9), TEXTS), max_size=5),
    st.lists(st.floats(-1, 1), max_size=6),
)
def test_a_search_never_fails_and_returns_hits_in_order_of_their_score(
    query: str, described: list[tuple[str, str]], near: list[float]
) -> None:
    tools = tool_set(a_tool(f"t{n}_{name}", text) for n, (name, text) in enumerate(described))
    hits = ToolIndex(tools.named).search(query, 3, near)
    assert len(hits) <= 3
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.score > 0 for hit in hits)


async def test_the_signs_of_the_vectors_of_similar_texts_agree_with_the_vector_of_the_query() -> (
    None
):
    async with aclosing(SentenceVectors(timeout_s=250)) as vectors:
        encoded = await vectors.encode("a cat", ["a kitten", "一只猫", "a tax return"])
        assert encoded is not None
        assert len(encoded.query) == VECTOR_NUMBERS
        assert [len(each) * 8 for each in encoded.signs] == [VECTOR_NUMBERS] * 3

        def agreement(signs: bytes) -> int:
            bits = int.from_bytes(signs, "big")
            positive = "".join("1" if number > 0 else "0" for number in encoded.query)
            return VECTOR_NUMBERS - (bits ^ int(positive, 2)).bit_count()

        kitten, cat, tax = map(agreement, encoded.signs)
        assert min(kitten, cat) > tax
