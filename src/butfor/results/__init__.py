"""What a run found: data, files and words."""
