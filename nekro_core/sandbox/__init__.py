"""Isolated boxes that run code and keep files. A library: it knows nothing of chats.

::

    box.py        the contract: Backend makes Boxes, a Box executes Runs
    work.py       what a box gives back of commands, files, archives, connections
    settings.py   SandboxSettings
    backends.py   open_backend: the first backend that passes its own self-check
    pool.py       BoxPool: boxes that are ready before anyone asks
    check.py      what a self-check reads back from inside a box
    agent_box.py  agent_run.py  channel.py  calls.py  handover.py
                  a box whose supervisor is reached over a channel: the same behind every backend
    agent_requests.py  agent_work.py  pieces.py
                  what it is asked beside its run: files; commands, globs, archives
    agent_streams.py  fd_passing.py  relayed.py
                  connections out of it: handed out as descriptors, or relayed in frames
    named/        boxes with names: many an owner, over sleep, wake and restart
    tools/        the eight tools of a model on named boxes: handle_tool_call, schemas
    preview/      servers in boxes, shown in a browser
    egress/       what boxes may reach, through the host alone
    end_to_end.py what of HTTP passes a proxy
    jail/         what makes boxes with bubblewrap
    docker/       what makes boxes with a Docker engine
    guest/        what runs inside: the supervisor, and the processes it forks for runs
"""
