"""The other sides: platforms, servers and models that tests talk to. See `tests` for why this is a
package."""
