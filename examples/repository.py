"""Look at a repository: its page from the network, its lines counted in a box, one summary.

A box has no network of its own, so the files come with `fetch_data` and are put in.
"""

from dataclasses import dataclass

from nekro_core.api.reactive import Computed, Readable, computed, exec_, fetch_data


@dataclass(frozen=True)
class Summary:
    """What is known so far."""

    name: str = "loading ..."
    stars: int = 0
    lines: int | None = None


def repository(server: str, name: Readable[str]) -> Computed[Summary]:
    """A summary that fills in as its parts arrive, of the repository that is named now."""
    meta = fetch_data(computed(lambda: name() and f"{server}/repos/{name()}"), mode="json")
    archive = fetch_data(
        computed(lambda: name() and f"{server}/repos/{name()}/archive.tar"), mode="bytes"
    )
    count = exec_(
        "tar -xf repo.tar && find . -name '*.py' -exec cat {} + | wc -l",
        files={"repo.tar": archive},
    )

    def summary() -> Summary:
        lines = int(count.result.stdout) if count.result and count.result.ok else None
        if meta.result is None:
            return Summary(lines=lines)
        return Summary(name=meta.result["name"], stars=meta.result["stars"], lines=lines)

    return computed(summary)
