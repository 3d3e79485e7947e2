"""Checks of the project's structure: its layout, its names, its imports and its docstrings.

``python -m tests.house`` prints every measure. With ``--base COMMIT`` it also prints the measures
of another commit. ``not_yet.toml`` has the number of findings that each check may still have; such
a number only falls.
"""
