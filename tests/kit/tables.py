"""Tables of cases as one writes them down: one or more in a line, with "|" between them."""

from __future__ import annotations


def cases(table: str) -> list[str]:
    return [case.strip() for line in table.split("\n") for case in line.split("|") if case.strip()]
