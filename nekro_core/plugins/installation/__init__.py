"""Installs, updates and removes plugins, for the command line and for a running bot."""
