"""The tests.

A package, as `tests.peers` is: pytest takes the outermost package above a test module for its name,
and would keep ``tests/peers/satori`` as ``satori``, in the place of the library that is called so.
"""
