"""Frames that print as what they say, where columns side by side would be cut; in all else frames."""

from __future__ import annotations

from html import escape

import pandas as pd


class Printed(pd.DataFrame):
    """A frame with a printed form, its `text`; what is made from it is a plain frame.

    >>> frame = Printed.of(pd.DataFrame({"a": [1]}), "one a")
    >>> frame
    one a
    >>> print(type(frame.copy()).__name__, frame.a.tolist())
    DataFrame [1]
    """

    _metadata = ["text"]  # noqa: RUF012 - as pandas wants it
    text: str

    @classmethod
    def of(cls, frame: pd.DataFrame, text: str) -> Printed:
        made = cls(frame)
        made.text = text
        return made

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"
