"""What the time model asks of a kernel: its code with the dependences, its loops, its clocks."""
