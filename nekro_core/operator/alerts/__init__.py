"""Tells operators what is wrong, once, and when it is over: in chats, to a webhook, and on the
console."""
