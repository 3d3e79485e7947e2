"""Tools that simulate the faults of a machine.

==================  =============================================================================
`steps`             kills the process at the n-th step of its tasks, so at any await
`machine`           gives one process a slow or full disk, or a clock that jumps
`line`              a network connection that freezes (half-open), is slow, or is cut
`database`          another program locks the database
`events`            a platform sends its events twice and out of order
==================  =============================================================================

They act on a whole bot in its own process. No part of the bot is replaced by a fake.
"""
