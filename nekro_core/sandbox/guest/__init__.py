"""The code that runs inside a box. The host only copies it in, and imports what both sides use:
`guest_wire` and `guest_socket_memory`."""
