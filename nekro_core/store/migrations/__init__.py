"""The migrations of the tables, oldest first. Never edit a released migration.

If the version before a migration can work with the tables after it, the name of the migration ends
with ``_compatible``. Then the processes of a cluster can be upgraded one after another: a process
of the version before runs on, and may start again, beside one of the new version. This holds only
for a migration that adds: a table that the version before does not need, an index, or a column that
may be NULL or has a default in the database. It does not hold if a column is removed or renamed, if
a unique key or a condition is added, or if the new version writes values into old columns that the
version before cannot read. Without the ending, a migration is refused while other processes use the
database.

A version may bring several migrations with the ending. A process accepts all of them, also those of
later versions. So "the version before" means every version since the newest migration without the
ending.
"""
