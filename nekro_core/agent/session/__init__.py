"""The live agent of one chat: triggers, waiting messages, turns one after another."""
