"""The statistics: arrays in, arrays out; one method, one file, with its equations (docs/methods.md)."""
