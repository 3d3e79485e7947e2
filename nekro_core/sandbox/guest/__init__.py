"""The code that runs inside a box. The host copies it into boxes. The host itself imports only
`guest_wire` and `guest_socket_memory`."""
