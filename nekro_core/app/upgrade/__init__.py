"""Continues a running bot as another version, and goes back if that version does not come up.

`nekro upgrade` makes an environment for the new version (`environment`), tries the migration on a
copy of the database (`trial`), writes an order into the data folder (`order`) and asks the bot to
restart. The old version ends, and its process becomes the `guard`: it keeps the database as it is
(`kept_database`), starts the new version as a child process, and waits until the child answers. If
it does not, the guard puts the database back and starts the old version again. See
docs/decisions/0051-upgrades-exports-site.md.
"""
