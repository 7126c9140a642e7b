"""A cache that forgets what was not used for longest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Node(Generic[Value]):
    """One entry in a ring of entries."""

    def __init__(self, key: Hashable, value: Value) -> None:
        self.key = key
        self.value = value
        self.before: Node[Value] = self
        self.after: Node[Value] = self


class LruCache(Generic[Value]):
    """Holds at most ``capacity`` values. The ring starts at the newest entry."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._nodes: dict[Hashable, Node[Value]] = {}
        self._ring: Node[Value | None] = Node(None, None)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Hashable]:
        node = self._ring.after
        while node is not self._ring:
            yield node.key
            node = node.after

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of ``key``, made if it is not there."""
        node = self._nodes.get(key)
        if node is None:
            self.misses += 1
            node = Node(key, make())
            self._nodes[key] = node
        else:
            self.hits += 1
            self._unlink(node)
        self._link_first(node)
        if len(self._nodes) > self.capacity:
            self._drop_last()
        return node.value

    def _link_first(self, node: Node) -> None:
        node.before, node.after = self._ring, self._ring.after
        node.before.after = node
        node.after.before = node

    def _unlink(self, node: Node) -> None:
        node.before.after = node.after
        node.after.before = node.before

    def _drop_last(self) -> None:
        last = self._ring.before
        self._unlink(last)
        del self._nodes[last.key]
