"""What runs inside a box. Only `guest_wire` is imported by the host; the rest is copied in."""
