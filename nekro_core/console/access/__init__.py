"""Protects the web site: checks who makes a request, logs people in, and limits requests."""
