"""Sound and pictures made into other sound and pictures, where a hostile file can do no harm.

::

    limits.py          what a platform takes of voices and pictures
    converter.py       MediaConverter: bytes in, bytes of another kind out
    plain_wav.py       telling 16-bit mono WAV from the rest without unpacking anything
    sniff.py           the type of bytes, by what they hold
    confined_process.py  a child process for each file: bounded in time, memory and what it may
    touch child.py           the child's side of it
    child_answer.py    what it answers, read as a stranger's
    self_check.py      what it could reach on this machine, tried
    sound_worker.py    the child that decodes and encodes sound
    fork_server.py     a child for each picture, forked from a process that has all loaded
    fork_loop.py       that process
    picture_worker.py  its program, and pictures made smaller
    picture_jobs.py    whether a stranger's picture is one, and a copy that a model may see
    errors.py          why bytes were not converted

Decoders are where strangers' bytes meet C code: of 600 SILK files with a few bytes changed, one
library crashed over 57. So none of them runs in the bot's own process
(docs/decisions/0026-media.md).
"""
