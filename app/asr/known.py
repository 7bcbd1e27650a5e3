"""Words that were already told keep their spelling in the transcript that follows."""

from __future__ import annotations


def spelled_as(known: str, text: str) -> str:
    """``text`` beginning with exactly ``known``, if that is how it begins but for case, spaces and punctuation.

    Otherwise ``text`` as it is. A mark that ends ``known`` was a guess about what would follow: ``text`` knows better.
    """
    wanted = [char.casefold() for char in known if char.isalnum()]
    if not wanted:
        return text
    matched = 0
    for index, char in enumerate(text):
        if not char.isalnum():
            continue
        if char.casefold() != wanted[matched]:
            return text
        matched += 1
        if matched == len(wanted):
            return _without_last_marks(known.strip()) + text[index + 1 :]
    return text


def _without_last_marks(text: str) -> str:
    end = len(text)
    while end and not text[end - 1].isalnum():
        end -= 1
    return text[:end]
