"""Test peers: platforms, servers and models that the tests talk to. `tests` says why this is a
package."""
