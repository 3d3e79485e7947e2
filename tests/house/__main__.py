"""``python -m tests.house``: print every measure and the number of findings of every check.

``--base COMMIT`` also prints the measures of that commit, and the findings that are new since it.
``--lower`` writes the counts that fell into ``not_yet.toml``. ``--only CHECK`` lists the findings
of one check.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.house import ratchet
from tests.house.checks import CHECKS, House
from tests.house.measures import measured, new_findings, report, unpack

ROOT = Path(__file__).parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Print what the arguments ask for.

    Returns:
        1 if ``--lower`` found a count above that of ``not_yet.toml``, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--base", metavar="COMMIT", help="print this commit's measures beside ours")
    parser.add_argument("--only", choices=CHECKS, help="list what one check finds")
    parser.add_argument("--lower", action="store_true", help="write the counts that fell")
    given = parser.parse_args(arguments)
    house = House(ROOT)
    if given.only:
        outcome = CHECKS[given.only](house)
        print(*outcome.lines, f"{given.only}: {outcome.count}", sep="\n")
        return 0
    if given.lower:
        rose = ratchet.lower({name: check(house).count for name, check in CHECKS.items()})
        print(*rose or ["tests/house/not_yet.toml is as the code is"], sep="\n")
        return 1 if rose else 0
    now = measured(house)
    if not given.base:
        print(*report(now), sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        unpack(given.base, ROOT, Path(folder))
        base = measured(House(Path(folder)))
    print(f"{given.base[:8]:>9}{'now':>9}", *report(now, base), sep="\n")
    print("\nnew since then", *new_findings(now, base), sep="\n  ")
    return 0


sys.exit(main())
