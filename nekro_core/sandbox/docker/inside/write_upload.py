"""Write one file below ``/app/uploads``, as a separate program with a separate user id.

The supervisor and the code in a box have another user id. So they can neither write nor rename
files there, and they cannot inspect this process. Arguments: the file's path below the folder as a
JSON list of names, and its size. Standard input has the bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

UPLOADS = "/app/uploads"
_PIECE = 256 * 1024


def write(root: str, parts: list[str], size: int, source: int) -> None:
    """Replace the file in one step. Missing parent folders are made. Raises OSError."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts[:-1]:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=folder)
        folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    temporary = f".{os.urandom(8).hex()}"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444, dir_fd=folder)
    try:
        while size:
            piece = os.read(source, min(size, _PIECE))
            if not piece:
                raise OSError(5, "the input ended early")  # noqa: TRY301 - deletes the file below
            size -= len(piece)
            while piece:
                piece = piece[os.write(file, piece) :]
        os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


def main() -> None:
    """Write the file, and print a line of JSON with the error number or 0."""
    os.umask(0o022)
    error = 0
    try:
        write(UPLOADS, json.loads(sys.argv[1]), int(sys.argv[2]), 0)
    except OSError as failed:
        error = failed.errno or 5
    os.write(1, json.dumps({"error": error}).encode() + b"\n")
    # Wait for the end of the input: the host closes it after it has read the answer.
    while os.read(0, _PIECE):
        pass


if __name__ == "__main__":
    main()
