"""Fetches, stores, fits and deletes the pictures, sounds and files of messages."""
