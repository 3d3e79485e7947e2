"""The tests of the house: what the layout, the names and the docstrings of the code promise.

``python -m tests.house`` prints every measure; ``--base COMMIT`` prints another commit's beside
them. What does not hold yet is counted in ``not_yet.toml``, and those counts only fall.
"""
