# SPDX-License-Identifier: GPL-3.0-or-later
"""A trie of spellings: which of many thousand forms begin at a place in a text, in one walk.

The walk is bounded by the longest form and does not depend on how many there are. Chains without a fork are kept as
one string, so ten thousand forms need about as many small dictionaries as they have forks.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class _Node(Generic[T]):
    """``rest`` has to follow before this node's values and children count; only nodes without children have one."""

    __slots__ = ("children", "rest", "values")

    def __init__(self, rest: str) -> None:
        self.rest = rest
        self.children: dict[str, _Node[T]] = {}
        self.values: list[T] = []


class SpellingTrie(Generic[T]):
    """Values by spelling. Several values of one spelling keep the order in which they were added."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node("")

    def add(self, spelling: str, value: T) -> None:
        """Put a value at a spelling, which must not be empty."""
        node, at = self._root, 0
        while at < len(spelling):
            child = node.children.get(spelling[at])
            at += 1
            if child is None:
                child = _Node(spelling[at:])
                node.children[spelling[at - 1]] = child
                at = len(spelling)
            elif child.rest:
                if child.rest == spelling[at:]:
                    at = len(spelling)
                else:
                    _fork(child)
            node = child
        node.values.append(value)

    def longest_first(self, text: str, at: int) -> list[tuple[int, list[T]]]:
        """(end, values) of each spelling that ``text`` has from ``at`` on, the longest first."""
        found: list[tuple[int, list[T]]] = []
        node = self._root.children.get(text[at])
        while node is not None:
            at += 1
            if node.rest:
                if text.startswith(node.rest, at):
                    found.append((at + len(node.rest), node.values))
                break
            if node.values:
                found.append((at, node.values))
            node = node.children.get(text[at]) if at < len(text) else None
        found.reverse()
        return found


def _fork(node: _Node[T]) -> None:
    """Give a node with a rest a child that holds it, so that another spelling can part from it."""
    child: _Node[T] = _Node(node.rest[1:])
    child.values, node.values = node.values, []
    node.children[node.rest[0]] = child
    node.rest = ""
