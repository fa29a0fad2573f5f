"""The commands that read tables, one file each: they parse, call, print."""
