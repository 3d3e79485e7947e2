"""Sound and pictures made into other sound and pictures, where a hostile file can do no harm.

::

    limits.py          what a platform takes of voices and pictures
    converter.py       Converter: bytes in, bytes of another kind out
    plain_wav.py       telling 16-bit mono WAV from the rest without unpacking anything
    confined.py        a child process for each file: bounded in time, memory and what it may touch
    confinement.py     the child's side of it
    allowed_calls.py   the system calls that it may make from then on
    answers.py         what it says, read as a stranger's
    self_check.py      what it could reach on this machine, tried
    sound_worker.py    the child that decodes and encodes sound
    fork_server.py     a child for each picture, forked from a process that has all loaded
    forking.py         that process
    picture_worker.py  its program, and pictures made smaller
    picture_jobs.py    whether a stranger's picture is one, and a copy that a model may see

Decoders are where strangers' bytes meet C code: of 600 SILK files with a few bytes changed, one
library crashed over 57. So none of them runs in the bot's own process
(docs/decisions/0026-media.md).
"""
