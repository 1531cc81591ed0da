"""Operations, streams, the scheduler, engines, and when effects become visible."""
