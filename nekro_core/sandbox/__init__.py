"""Isolated boxes that run code and store files. This package is a library: it contains no code
about chats.

::

    box.py           the contract: a Backend makes Boxes, a Box executes Runs
    results.py       the values that a box returns for commands, files, archives, connections
    settings.py      SandboxSettings
    backends.py      open_backend: the first backend that passes its self-check
    check.py         the self-check: a run that reports how its box confines it
    pool.py          BoxPool: a few boxes that are made before they are needed
    supply.py        BoxSupply: callers get a box as soon as the backend is ready
    memory_limit.py  the memory that all boxes of a backend may use together
    uploads.py       files that the host writes into a box and the box's code only reads
    hop_headers.py   which HTTP headers a proxy forwards
    link/            the connection between the main process and a box
    jail/            boxes made with bubblewrap
    docker/          boxes made with a Docker engine
    guest/           the code inside a box: the supervisor, and the processes that it forks
    named/           boxes that have names, and whose files survive a restart
    tools/           eight tools for a model that uses named boxes
    preview/         servers in boxes, shown in a browser
    egress/          network access for boxes, only through the host
"""
