"""Runs the sessions of chats: decides when to answer, holds unanswered messages, and runs turns one
after another."""
