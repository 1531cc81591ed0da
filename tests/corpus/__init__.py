"""The corpus: kernels as a course, a book or a sample collection has them, each with data and an oracle."""
