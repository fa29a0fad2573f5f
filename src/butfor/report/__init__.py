"""Result -> one offline HTML file."""

from butfor.report.write import write

__all__ = ["write"]
