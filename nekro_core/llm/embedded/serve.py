"""Runs llama.cpp's server, as the program of the embedded model's process.

`ModelServer` starts this file as a script; no code imports it. The script reads one line of JSON
from stdin, which says what to load and where to listen. When the server listens, the script writes
one line of JSON to stdout. When stdin ends, the process ends, so it ends with the bot. The server
offers the OpenAI API on a Unix socket.
"""

import json
import os
import sys
import threading
from typing import Any


def main() -> None:
    """Load the model, listen, and run until stdin ends."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    # Start this thread before the model is loaded, because the parent may end during the seconds in
    # which the model is loaded.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Send what the library prints to stderr, because stdout is only for the one line of JSON.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = _start(order)
    print(json.dumps({"listening": server.listening_address}), file=answers, flush=True)
    threading.Event().wait()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)  # `sys.exit` would wait for native threads of the server


def _start(order: dict[str, Any]) -> Any:
    import xllamacpp  # noqa: PLC0415  # it takes 100 MB of memory

    parameters = xllamacpp.CommonParams()
    parameters.model.path = order["model"]
    parameters.hostnames = [order["socket"]]
    parameters.port = 1  # a socket needs no port, but 0 would mean "choose a port"
    parameters.api_keys = [order["key"]]
    parameters.n_ctx = order["context_tokens"]
    # The server checks only between two batches of tokens whether a request was closed. A batch of
    # the default size, 2,048 tokens, would take half a minute.
    parameters.n_batch = parameters.n_ubatch = 128
    parameters.n_parallel = order["slots"]
    # A further cache is not needed, because the bot chooses the slot of each prompt.
    parameters.cache_ram_mib = 0
    parameters.slot_save_path = order["readings"]
    parameters.sleep_idle_seconds = order["idle_unload_s"] or -1
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = order["threads"]
    parameters.n_gpu_layers = 0
    parameters.fit_params = False
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.verbosity = 1  # Log only errors.
    return xllamacpp.Server(parameters)


if __name__ == "__main__":
    main()
