"""Isolated boxes that run code and keep files. A library: it knows nothing of chats.

::

    box.py        the contract: Backend makes Boxes, a Box executes Runs
    results.py    what a box gives back of commands, files, archives, connections
    settings.py   SandboxSettings
    backends.py   open_backend: the first backend that passes its own self-check
    check.py      what a self-check reads back from inside a box
    pool.py       BoxPool: boxes that are ready before anyone asks
    supply.py     BoxSupply: boxes while the backend still proves itself, and words where it fails
    memory_limit.py  what all boxes may use together
    uploads.py    what the host puts into a box for reading only
    hop_headers.py  which headers of HTTP pass a proxy
    link/         a box whose supervisor is reached over a channel: the same behind every backend
    jail/         what makes boxes with bubblewrap
    docker/       what makes boxes with a Docker engine
    guest/        what runs inside: the supervisor, and the processes it forks for runs
    named/        boxes with names: several for one owner, over sleep, wake and restart
    tools/        the eight tools of a model on named boxes: handle_tool_call, schemas
    preview/      servers in boxes, shown in a browser
    egress/       what boxes may reach, through the host alone
"""
