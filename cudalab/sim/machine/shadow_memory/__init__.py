"""What sanitized code notes beside the memory of a program: last accesses, undefined values, events."""
