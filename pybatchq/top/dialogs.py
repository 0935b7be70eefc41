"""What lies over a page for a while: a question, a long text, work that goes on."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from pybatchq.words import visible


class Ask(ModalScreen[str | None]):
    """A question; None: no. With a `field` the answer is what is typed there, else empty."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "no", show=False),
        Binding("n,q", "no", show=False),
        Binding("y", "yes", show=False),
    ]

    def __init__(self, question: str, yes: str, *, field: str | None = None) -> None:
        super().__init__()
        self._question = visible(question, lines=True)
        self._yes = yes
        self._field = field

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, markup=False, id="question")
            if self._field is not None:
                yield Input(placeholder=self._field, max_length=1000, id="field")
            key = "y" if self._field is None else "Enter"
            yield Static(f"{key}: {self._yes}    Escape: leave it", markup=False, classes="keys")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())

    def action_yes(self) -> None:
        if self._field is None:
            self.dismiss("")

    def action_no(self) -> None:
        self.dismiss(None)


class Reader(ModalScreen[None]):
    """A long text to be read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "close", show=False),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog wide"):
            yield Static(self._title, markup=False, classes="title")
            with VerticalScroll():
                yield Static(self._text, markup=False)
            yield Static("Escape: back", markup=False, classes="keys")

    def action_close(self) -> None:
        self.dismiss()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class Working(ModalScreen[None]):
    """How far some work is; Escape asks it to stop."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "stop", show=False)]

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self.is_stopped = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._what, markup=False, id="progress")
            yield Static("Escape: stop", markup=False, classes="keys")

    def tell(self, text: str) -> None:
        self.query_one("#progress", Static).update(text)

    def action_stop(self) -> None:
        self.is_stopped = True
