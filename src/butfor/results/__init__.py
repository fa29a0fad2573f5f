"""Results: data, files and words."""
