"""What can go wrong with a machine, as tools that tests hold in their hands.

==================  =============================================================================
`steps`             kills the process at the n-th step that its tasks take: at any await
`machine`           a disk that is slow or full, a clock that is set, for one process
`line`              a network line that freezes (half-open), is slow, or is cut
`database`          somebody else holds the database
`events`            a platform that sends its events twice and out of order
==================  =============================================================================

They act on a whole bot that runs as a process of its own; nothing of it is replaced.
"""
