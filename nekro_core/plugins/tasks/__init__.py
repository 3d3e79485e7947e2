"""Work that a plugin goes on with after its call has ended."""
