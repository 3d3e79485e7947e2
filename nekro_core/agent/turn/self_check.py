"""Whether this very Python cuts a reply's code where it should: `nekro doctor` tries it.

Debian 12's own Python once cut a class in two, because its `re` has a fault that others have not.
"""

from nekro_core.agent.turn.code_statements import CodeStatement
from nekro_core.agent.turn.code_stream import CodeStream

# Each as its statements. What is read wrongly in a body ends the statement there, which shows.
_SAMPLES = (
    ('class A:\n    """What "it" is."""\n\n    x = 1\n', "print(A.x)\n"),
    ("def f():\n    '''One 'word' and\n\n``` two.\n    '''\n    return {'a': [1]}\n", "f()\n"),
    ("if 1:\n    a = 'it\\'s (\\''\n    b = rf'\\{a}'\nelse:\n    c = \"\\\" ' [\"\n", "d = 1\n"),
    (
        'for x in (\n1,):\n    y = f"""{x:>{8}} {{ "one" "" {\nx} \\"""}}"""\n\n    z = y\n',
        "print(z)\n",
    ),
)


def misread_samples() -> list[str]:
    """Those of a few fixed pieces of Python that are not cut into their statements here."""
    return ["".join(sample) for sample in _SAMPLES if _cut("".join(sample)) != list(sample)]


def _cut(source: str) -> list[str]:
    stream = CodeStream(bare_code=True)
    events = [*stream.feed(source), *stream.finish()]
    return [event.source for event in events if isinstance(event, CodeStatement)]
