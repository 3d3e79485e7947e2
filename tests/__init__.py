"""The tests.

This file makes ``tests`` a package. pytest names a test module after the outermost package above
it. Without this file, pytest would name ``tests/peers/satori`` only ``satori``, and this name
belongs to an installed library.
"""
