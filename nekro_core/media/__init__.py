"""Recognizes, checks and converts sound and pictures, so that a hostile file can do no harm.

::

    limits.py            which voices, pictures and files a platform accepts
    sniff.py             the type of a file, read from its bytes
    plain_wav.py         the length of a 16-bit mono WAV, read from its header
    converter.py         MediaConverter: bytes of one type in, bytes of another type out
    picture_jobs.py      checks an untrusted picture, and makes a copy for a model
    confined_process.py  one child process for each file, with limits on time and memory
    child.py             the code in such a child that reads a request and writes the answer
    child_answer.py      reads and checks that answer, which may be hostile
    sound_worker.py      the child that decodes and encodes sound
    documents.py         DocumentReader: the text of a document, by page or heading
    document_worker.py   the child that reads a document
    file_look.py         FileLooker: what is in a posted table, document or archive, in two lines
    look_worker.py       the child that looks into such a file
    fork_server.py       one child for each picture, forked from a process with loaded libraries
    fork_loop.py         the loop of that process
    picture_worker.py    the program of that process, which decodes and scales pictures
    self_check.py        tries what a compromised decoder could reach on this machine
    errors.py            why bytes were not converted

Decoders are C code that reads untrusted bytes. One library crashed on 57 of 600 SILK files in which
a few bytes were changed. So no decoder runs in the bot's own process
(docs/decisions/0026-media.md).
"""
