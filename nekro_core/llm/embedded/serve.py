"""The process of the embedded model. `ModelServer` runs it as a script; it is not imported.

Protocol: one JSON line on stdin says what to load and where to listen; one JSON line on stdout says
that it listens. When stdin ends, the process ends, so it cannot outlive the bot. The llama.cpp
server in it offers the OpenAI API on a Unix socket.
"""

import json
import os
import sys
import threading
from typing import Any


def main() -> None:
    """Load the model, listen, and stay until stdin ends."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    # Loading takes seconds, so the watch for the parent's end begins before it.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The library's output goes to the log; stdout is for the one line of the protocol.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = _start(order)
    print(json.dumps({"listening": server.listening_address}), file=answers, flush=True)
    threading.Event().wait()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)  # native threads of the server would delay an ordinary exit


def _start(order: dict[str, Any]) -> Any:
    import xllamacpp  # noqa: PLC0415  # 100 MB: only this process pays for it

    parameters = xllamacpp.CommonParams()
    parameters.model.path = order["model"]
    parameters.hostnames = [order["socket"]]
    parameters.port = 1  # unused with a socket, but 0 would mean "choose one"
    parameters.api_keys = [order["key"]]
    parameters.n_ctx = order["context_tokens"]
    # The server notices a closed request between batches: at 2,048 tokens that is half a minute.
    parameters.n_batch = parameters.n_ubatch = 128
    parameters.n_parallel = order["slots"]
    parameters.cache_ram_mib = 0  # the bot chooses the slots
    parameters.slot_save_path = order["readings"]
    parameters.sleep_idle_seconds = order["idle_unload_s"] or -1
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = order["threads"]
    parameters.n_gpu_layers = 0
    parameters.fit_params = False
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.verbosity = 1  # errors
    return xllamacpp.Server(parameters)


if __name__ == "__main__":
    main()
