"""Boxes made with a Docker engine, on this machine or another.

::

    backend.py     DockerBackend
    engine.py      DockerEngine: calls of the `docker` package, each with a time limit
    images.py      which image a name means, and which Python it has
    launch.py      makes a box: its container, stream, descriptor socket and supervisor
    container.py   the engine's configuration of a box's container
    users.py       the user ids of a box
    processes.py   the start and the end of a container
    stream.py      the attached stream of a container
    relay.py       a socket for asyncio from any connection that the `docker` package returns
    boot.py        sends the supervisor's code through that stream
    fd_passing.py  the socket that descriptors pass through, where the engine is on this machine
    uploads.py     files that the box's code cannot write
    orphans.py     removes containers that a killed bot left behind
    remedies.py    what the operator can do when an engine refuses
    build.py  root_files.py  Dockerfile
                   make the default image
    inside/        programs that run in a container before or beside the supervisor
"""
