"""Reading HTML in tests."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements with attributes, headings in order, and the text outside of style and script."""

    VOID = frozenset({"meta", "br", "wbr", "line", "circle", "rect", "path", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in self.VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name):
        if name not in self.VOID:
            assert self.open.pop() == name

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.said).split())

    def count(self, name: str, **attributes: str) -> int:
        return sum(
            found == name and all(has.get(key) == value for key, value in attributes.items())
            for found, has in self.elements
        )
