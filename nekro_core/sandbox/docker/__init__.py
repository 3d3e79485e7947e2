"""Boxes made with a Docker engine, on this machine or another.

::

    backend.py     DockerBackend
    engine.py      DockerEngine: calls of the `docker` package, each with a time limit
    images.py      finds the image that a name means, and the Python in it
    launch.py      makes a box: its container, stream, descriptor socket and supervisor
    container.py   the engine's configuration of a box's container
    users.py       the user ids of a box
    processes.py   starts and ends a container
    stream.py      the attached stream of a container: its stdin, stdout and stderr
    relay.py       makes a plain socket from any connection that the `docker` package returns
    boot.py        sends the supervisor's code through the attached stream
    fd_passing.py  the socket that passes descriptors to the host, if the engine is on this machine
    uploads.py     files that the host writes into a box and the box's code cannot change
    packages.py    the packages that all boxes share, in volumes
    package_filling.py
                   fills such a volume
    orphans.py     removes containers of bots that were killed
    remedies.py    what the operator can do if an engine cannot be used
    build.py  root_files.py  Dockerfile
                   make the default image
    inside/        programs that run in a container before the supervisor, or next to it
"""
