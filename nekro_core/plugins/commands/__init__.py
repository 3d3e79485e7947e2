"""What people type as ``/name arguments``: described by plugins, found and run for the chat."""
