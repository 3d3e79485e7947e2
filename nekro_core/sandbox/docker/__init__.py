"""What makes boxes with a Docker engine, on this machine or another.

::

    backend.py     DockerBackend
    engine.py      the engine, reached through the `docker` package
    images.py      which image a name means, and the Python in it
    launch.py      making a box: its container, stream, descriptor socket and supervisor
    container.py   what a box's container is told to be
    users.py       its user ids
    processes.py   its start and its end
    stream.py  relay.py
                   the attached stream, taken apart; streams that asyncio cannot take by itself
    boot.py        how the supervisor's code reaches a container: through that stream
    fd_passing.py  the socket that descriptors pass through, where the engine is on this machine
    uploads.py     files that the box's code cannot write
    orphans.py     containers that a killed bot left behind
    remedies.py    what to do when an engine refuses
    build.py  root_files.py  Dockerfile
                   making the default image
    inside/        what runs in a container beside the supervisor
"""
