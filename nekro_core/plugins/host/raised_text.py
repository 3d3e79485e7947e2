"""Finds out whether a plugin's own code raised an error with a text by its author."""

import dis
import os
from pathlib import PurePath

_RAISE = dis.opmap["RAISE_VARARGS"]


def raised_text(error: BaseException, own_files: str) -> str:
    """Get the text of an error if a ``raise`` or ``assert`` in a plugin's own code raised the
    error; otherwise an empty text.

    The author wrote such a text. Texts of other errors may contain keys and paths of the host: if
    ``tokens[name]`` fails, the text of the `KeyError` is the name, and an error of an HTTP client
    contains an address. So the innermost frame of the traceback must be in a file of the plugin,
    and its instruction must be RAISE_VARARGS. If code catches an error and raises it again, the
    innermost frame is still the one in which the error occurred first.

    Args:
        error: The error, with its traceback.
        own_files: The folder or the file of the plugin; empty if there is none. Packages in a
            ``site-packages`` below the folder do not count as the plugin's own.
    """
    trace = error.__traceback__
    if trace is None or not own_files:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    # `co_code` has the instructions as they were compiled. Python may have replaced them in memory
    # with faster ones.
    raised = 0 <= trace.tb_lasti < len(code.co_code) and code.co_code[trace.tb_lasti] == _RAISE
    return str(error) if raised and _is_below(code.co_filename, own_files) else ""


def _is_below(file: str, own_files: str) -> bool:
    path, own = PurePath(os.path.realpath(file)), PurePath(os.path.realpath(own_files))
    return path.is_relative_to(own) and "site-packages" not in path.relative_to(own).parts
