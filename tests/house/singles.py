"""What the project has one of: a check for each names the places that make a second one."""

from tests.house.packages import imported
from tests.house.tree import Tree

HTTP_CLIENT = "httpx"
"""The one HTTP client that our code is written with."""
OTHER_HTTP_CLIENTS = frozenset(
    {"aiohttp", "curl_cffi", "httpcore", "httpcore2", "httplib2", "httpx2", "openai", "pycurl"}
    | {"requests", "urllib3"}
)
"""Others that a library may bring along. `http.client` and `urllib.request` are counted as well."""
_OF_PYTHON = ("http.client", "urllib.request")


def other_http_clients(tree: Tree) -> dict[str, str]:
    """Files that import another HTTP client than ours, and where."""
    found: dict[str, str] = {}
    for module, where in imported(tree, with_python=True):
        top = module.partition(".")[0]
        if top in OTHER_HTTP_CLIENTS or f"{module}.".startswith(tuple(f"{m}." for m in _OF_PYTHON)):
            path = where.partition(":")[0]
            found.setdefault(path, f"{where}: imports {module}; our HTTP client is {HTTP_CLIENT}")
    return found
