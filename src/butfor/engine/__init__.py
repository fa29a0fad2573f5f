"""Where the work runs, and what is kept of it."""
