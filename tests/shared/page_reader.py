"""A page of the report, read as a browser's parser would read it."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """The elements of a page, the text in each, and its tables by caption."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.titles: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self._caption = ""
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        elif tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self.titles.append(dict(attrs).get("title") or "")

    def handle_endtag(self, tag) -> None:
        while self._open and self._open.pop() != tag:
            pass
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data) -> None:
        if "script" in self._open:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = attributes, text + data
        elif "style" not in self._open:
            self.text += data
            if "caption" in self._open:
                self._caption += data
            elif "td" in self._open or "th" in self._open:
                self._rows[-1][-1] += ("\n" if self._open[-1] == "small" else "") + data

    def headings(self) -> list[str]:
        return re.findall(r"<h[1-6]>(.*?)</h[1-6]>", self.source)

    def data(self) -> dict:
        """What the explorer draws."""
        (text,) = (text for attributes, text in self.scripts if "type" in attributes)
        return json.loads(gzip.decompress(base64.b64decode(text)))

    def subjects(self) -> list[dict]:
        return [subject for group in self.data()["groups"] for subject in group["subjects"]]

    def rows(self, subject: int = 0) -> list[dict]:
        """The explorer's rows of one subject, with the names of implementations and problems in place."""
        data = self.subjects()[subject]
        fields = self.data()["fields"]
        made = [dict(zip(fields, values, strict=True)) for values in zip(*data["columns"], strict=True)]
        for row in made:
            row["name"], row["problem"] = data["names"][row["name"]], data["problems"][row["problem"]][0]
        return made

    def code(self) -> list[str]:
        return [text for attributes, text in self.scripts if "type" not in attributes]


__all__ = ["Page"]
