"""The names of the numbers that the learnt trees read, in the order in which `features` computes
them. `addressee.json` has these names too. So a file whose trees were learnt from other numbers is
refused."""

from nekro_core.agent.participation.line_text import TEXT_FEATURES

LAST_CUES = (
    "agrees", "denies", "thanks", "hearer", "speaker", "inquires", "attempts", "everybody",
)  # fmt: skip
"""The cues of a person's last line that are features of the person."""
LINE_FEATURES = (
    *TEXT_FEATURES,
    "names", "begins with a name",
    "own lines", "own last ago", "own last seconds", "own last asked", "own last names",
    "own lines in two minutes", "own share of questions", "own first ago",
    "speakers of ten", "active in five minutes", "people", "lines in a minute",
    "people named by speaker", "people who named speaker", "namings of speaker",
    "shared with own",
    "own share of namings", "own commands", "shared with own talk", "own last command",
    "open questions",
)  # fmt: skip
"""The features that depend only on the line and its speaker."""
TALK_FEATURES = (
    "named", "named first", "others named",
    "ago", "seconds ago", "order", "speaker after", "since speaker", "lines", "lines of 12",
    "share of questions",
    "named speaker ago", "named speaker seconds", "speaker after naming", "namings of speaker",
    "asked when naming",
    "named by speaker ago", "named by speaker seconds", "after named", "namings by speaker",
    "named others", "last goes to", "own last goes to", "order among namers",
    "other namings of speaker", "other namings by speaker",
    "last asked", "last characters", "open asked",
    "shared with last", "shared best", "shared sum", "shared by others", "shared more",
    "last shared with own", "after own last",
    "shared with talk", "shared with talk by others", "talk shared more", "talks shared",
    "stems shared", "stems shared more",
    *(f"last:{name}" for name in LAST_CUES), "last command", "share of commands",
    "share of namings", "turns", "pace", "question ago", "speaker after question",
    "order among questions", "shared with question",
    "named by others", "named by others ago",
)  # fmt: skip
"""The features about a person to whom the line may go. They are counted, not estimated."""
AIM_FEATURES = (
    "from speaker", "to speaker", "to others", "own last to it", "last to speaker",
    "best", "best ago", "speaker after best", "best asked", "shared with best",
    "from speaker elsewhere", "to speaker from others", "from speaker more", "to speaker more",
    "best more",
    "aimed ago", "aimed seconds", "speaker after aimed", "aimed rank",
    "answered ago", "after answered", "answered rank", "answered later",
    "from others", "from others ago", "answers to question",
)  # fmt: skip
"""The features that depend on an estimate: to whom earlier lines probably went."""
PERSON_FEATURES = (*TALK_FEATURES, *AIM_FEATURES)
ELSEWHERE_FEATURES = ("likely", "rank", "likeliest other", "others together", "continues")
"""The results of the first two trees: how likely the line goes to this person, how likely it goes
to others, and how likely it continues the speaker's own line."""
