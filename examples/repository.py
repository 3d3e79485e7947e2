"""Summarize a repository: its page comes from the network, and a box counts its lines.

A box has no network, so `fetch_data` downloads the files and they are written into the box.
"""

from dataclasses import dataclass

from nekro_core.api.reactive import Computed, Readable, computed, exec_, fetch_data


@dataclass(frozen=True)
class Summary:
    """The parts of the summary that are known so far."""

    name: str = "loading ..."
    stars: int = 0
    lines: int | None = None


def repository(server: str, name: Readable[str]) -> Computed[Summary]:
    """A summary of the repository ``name``. Each part is filled in when it arrives."""
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
