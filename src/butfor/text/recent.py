"""A small memory of what was found last; a pure saving, so it neither travels to workers nor is saved."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The last few values by key.

    >>> squares = Recent(2)
    >>> [squares.get(x, lambda: x * x) for x in (2, 3, 2)]
    [4, 9, 4]
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """What belongs to `key`, made if it is not there."""
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        value = self._known[key] = make()
        while len(self._known) > self.most:
            self._known.popitem(last=False)
        return value

    def __reduce__(self) -> tuple[type[Recent[Value]], tuple[int]]:
        return Recent, (self.most,)
