"""From the solutions to what learners open, and from what they hand in to a score."""
