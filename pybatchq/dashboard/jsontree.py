"""Stored JSON as HTML that folds: text throughout, numbers digit by digit as they are stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from markupsafe import Markup, escape

from pybatchq import words

# More is not read on a page: there is the plain text for that.
MOST_NODES: Final = 2_000
MOST_DEPTH: Final = 40
MOST_TEXT: Final = 20_000
MOST_TEXTS: Final = 200_000
# Whatever has so many parts or fewer is unfolded from the start.
OPEN_PARTS: Final = 20
CUT: Final = Markup('<span class="cut">…</span>')


class Number(str):
    """A number as it was written: a float would lose digits."""

    __slots__ = ()


def tree(data: bytes | str | None) -> Markup:
    """JSON text, folding where it has parts. What cannot be read so is shown as it is, cut."""
    if data is None:
        return Markup("–")
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=Number)
    except (ValueError, RecursionError):
        return Markup("<pre>{}</pre>").format(_Writer().cut(text))
    return Markup('<div class="json">{}</div>').format(Markup("").join(_Writer().node(value, 0)))


class _Writer:
    """Writes one tree; past MOST_NODES or MOST_TEXTS characters it writes no more."""

    def __init__(self) -> None:
        self._left = MOST_NODES
        self._characters = MOST_TEXTS

    def cut(self, text: str, most: int = MOST_TEXT) -> Markup:
        """The text as people may see it, as far as there is room."""
        most = min(most, max(self._characters, 0))
        # half a character cannot be sent
        shown = text[:most].encode("utf-8", "replace").decode()
        shown = words.visible(shown, lines=True)
        self._characters -= len(shown)
        return escape(shown) if len(text) <= most else escape(shown) + CUT

    def node(self, value: Any, depth: int) -> Iterator[Markup]:
        self._left -= 1
        if isinstance(value, dict | list) and value:
            yield from self._parts(value, depth)
        else:
            yield self._leaf(value)

    def _parts(self, value: dict[str, Any] | list[Any], depth: int) -> Iterator[Markup]:
        is_list = isinstance(value, list)
        noun = "item" if is_list else "key"
        is_open = len(value) <= OPEN_PARTS and depth < 3
        yield Markup("<details{}><summary>{} <small>{}</small></summary><ul>").format(
            Markup(" open") if is_open else "", "[…]" if is_list else "{…}",
            words.counted(len(value), noun),
        )  # fmt: skip
        if depth >= MOST_DEPTH:
            yield CUT
        else:
            parts = enumerate(value) if isinstance(value, list) else value.items()
            for key, part in parts:
                if self._left <= 0 or self._characters <= 0:
                    yield Markup("<li>{}</li>").format(CUT)
                    break
                yield Markup('<li><span class="key">{}</span> ').format(self.cut(str(key)))
                yield from self.node(part, depth + 1)
                yield Markup("</li>")
        yield Markup("</ul></details>")

    def _leaf(self, value: Any) -> Markup:
        match value:
            case Number():
                kind, text = "num", str(value)
            case str():
                kind, text = "str", json.dumps(value[: MOST_TEXT + 1], ensure_ascii=False)
            case None | True | False:
                kind, text = "lit", json.dumps(value)
            case _:
                kind, text = "lit", "[]" if isinstance(value, list) else "{}"
        return Markup('<span class="{}">{}</span>').format(kind, self.cut(text))
