"""Finds in the text of one line what tells to whom it goes: its words, and cues such as a question
or thanks.

English words are found between spaces. Chinese and Japanese have no spaces, so there the words are
pairs of neighbouring characters, and cues are looked for anywhere in the text.
"""

import re
import unicodedata
from dataclasses import dataclass

_READ = 1000
"""Characters of a line that are read. People's lines are shorter; normalizing takes the square of a
run of combining marks."""
_MOST_WORDS = 60
"""Words of a line in which cues are looked for, so that pasted texts cost no time."""
_WORD = re.compile(r"[a-z0-9][a-z0-9_'+-]*")
_EAST = re.compile(r"[\u3005\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]+")
_LINK = re.compile(r"https?://\S+|www\.\S+")
_SMILE = re.compile(r"[:;=]-?[)dp(](?![a-z0-9])|[😀-🙏🤣🤔]|\^_?\^")
_DIGIT = re.compile(r"\d")

CUES: dict[str, tuple[str, str]] = {
    "agrees": (
        "yes yeah yep yup ok okay sure right ya aye indeed k exactly correct true yea fine agreed",
        "好 嗯 对 是的 行 可以 没问题 はい うん ええ そう 了解 いいよ",
    ),
    "denies": (
        (
            "no nope nah not don't doesn't can't cannot didn't isn't won't dont doesnt cant didnt "
            "nothing never none wasn't wont isnt"
        ),
        "不 没 别 いや いいえ 違 ない ません",
    ),
    "thanks": (
        "thanks thank thx ty tnx cheers thankyou thanx thnx",
        "谢 感谢 多谢 ありがと どうも サンキュ 助か",
    ),
    "greets": (
        "hi hello hey hola morning evening greetings yo sup howdy bye goodnight",
        "你好 您好 早上好 晚安 再见 こんにちは おはよう こんばんは おやすみ",
    ),
    "everybody": (
        "anyone anybody everyone everybody all guys someone somebody folks people",
        "大家 各位 有人 谁 皆さん みんな 誰",
    ),
    "speaker": (
        "i i'm im my me i've i'd i'll ive mine myself",
        "我 私 俺 僕 自分",
    ),
    "hearer": (
        "you your u you're youre you'll you've ur yours yourself",
        "你 您 あなた 君",
    ),
    "points": (
        "it that this it's its that's thats those these them there",
        "这 那 它 それ これ あれ その この",
    ),
    "continues": (
        "but and so because well then also though or still anyway cause",
        "但 可是 所以 然后 那么 而且 因为 でも じゃ だから それで けど から",
    ),
    "reacts": (
        (
            "lol haha hmm hm oh ah wow heh hehe ooh aha ahh ohh lmao rofl nice cool great awesome "
            "damn weird hah yay ugh ouch"
        ),
        "哈哈 呵呵 哦 啊 笑 草 厉害 へえ すごい なるほど",
    ),
    "inquires": (
        (
            "what how why where when which who what's whats how's is are do does did can could "
            "would should any has have will whose"
        ),
        "什么 怎么 为什么 哪 何 多少 几 どう なぜ どこ いつ どれ",
    ),
    "attempts": (
        "try tried trying did done works worked work working fixed got",
        "试 弄 好了 成功 やった できた 動い 試",
    ),
    "apologizes": (
        "sorry pardon excuse oops apologies",
        "抱歉 对不起 不好意思 すみません ごめん",
    ),
}
"""For each kind of cue: English words, and character sequences of Chinese and Japanese."""
CUE_NAMES = tuple(CUES)
_BY_WORD: dict[str, frozenset[int]] = {}
for _at, (_latin, _) in enumerate(CUES.values()):
    for _word in _latin.split():
        _BY_WORD[_word] = _BY_WORD.get(_word, frozenset()) | {_at}
_BY_CHARACTERS = [(each, at) for at, (_, east) in enumerate(CUES.values()) for each in east.split()]
_ASKING_ENDS = "吗呢么嘛か"
_COMMON = frozenset(
    [
        "a",
        "about",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "do",
        "does",
        "for",
        "from",
        "give",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "let",
        "like",
        "me",
        "my",
        "need",
        "not",
        "of",
        "on",
        "one",
        "or",
        "our",
        "out",
        "please",
        "so",
        "some",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "this",
        "to",
        "up",
        "us",
        "use",
        "used",
        "using",
        "want",
        "was",
        "we",
        "what",
        "when",
        "which",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
        "just",
        "get",
        "got",
        "did",
        "don't",
        "i'm",
        "it's",
        "ok",
        "yes",
        "no",
        "yeah",
        "im",
        "u",
        "dont",
        "know",
        "think",
        "he",
        "she",
        "they",
    ]
)
"""Words that almost every line has. They do not show that two lines belong together."""

TEXT_FEATURES = (
    "asks", "characters", "words",
    *(f"begins:{name}" for name in CUE_NAMES), *(f"has:{name}" for name in CUE_NAMES),
    "link", "dots", "exclamation", "digit", "slash", "command", "no words", "smile",
)  # fmt: skip
"""The names of `LineText.numbers`, in order."""


@dataclass(frozen=True, slots=True)
class LineText:
    """What one line says.

    Attributes:
        words: The words that are not common to most lines; of Chinese and Japanese texts, the pairs
            of characters.
        asks: Whether it asks something.
        begins: The indexes in `CUE_NAMES` of the cues with which it begins.
        has: The indexes of the cues in it.
        characters: Its length.
        numbers: Its features for the model, see `TEXT_FEATURES`.
    """

    words: frozenset[str]
    asks: bool
    begins: frozenset[int]
    has: frozenset[int]
    characters: int
    numbers: tuple[float, ...]


def read_line(text: str) -> LineText:
    """Read one line of a person or of the bot. Only its beginning is read."""
    plain = unicodedata.normalize("NFKC", text[:_READ]).casefold()
    bare = _LINK.sub(" ", plain)
    words, east = _WORD.findall(bare)[:_MOST_WORDS], "".join(_EAST.findall(bare))
    begins: set[int] = set()
    has: set[int] = set()
    for at, word in enumerate(words):
        cues = _BY_WORD.get(word)
        if cues:
            has |= cues
            if at == 0:
                begins |= cues
    if east:
        for each, cue in _BY_CHARACTERS:
            at = east.find(each)
            if at >= 0:
                has.add(cue)
                if at == 0:
                    begins.add(cue)
    end = bare.rstrip(" 。.!！~～…")
    asks = "?" in bare or (bool(east) and end[-1:] in _ASKING_ENDS)
    pairs = (east[at : at + 2] for at in range(len(east) - 1))
    flags = (
        len(plain) != len(bare) or bare != plain,
        ".." in bare or "…" in plain,
        "!" in bare,
        _DIGIT.search(bare) is not None,
        "/" in bare,
        bare.startswith(("!", "/")),
        not words and not east,
        _SMILE.search(bare) is not None,
    )
    cues_count = len(CUE_NAMES)
    return LineText(
        words=frozenset(
            (*(each for each in words if each not in _COMMON and len(each) > 1), *pairs)
        ),
        asks=asks,
        begins=frozenset(begins),
        has=frozenset(has),
        characters=len(text),
        numbers=(
            float(asks),
            float(min(len(text), _READ)),
            len(words) + len(east) / 2,
            *(float(cue in begins) for cue in range(cues_count)),
            *(float(cue in has) for cue in range(cues_count)),
            *map(float, flags),
        ),
    )
