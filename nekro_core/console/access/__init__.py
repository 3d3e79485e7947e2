"""Guards the web site: who may ask, logins, sessions, and the limits of requests."""
