"""Markdown and HTML as a listener should hear them: not at all."""

from __future__ import annotations

import html
import re

from app.tts.speakable.tracked import Tracked

_COMMENT = re.compile(r"<!--.*?(?:-->|$)", re.S)
_HIDDEN = re.compile(r"<(script|style)\b[^>]*>.*?(?:</\1>|$)", re.S | re.I)
_CITATION = re.compile(r"(?<=[\w.,!?])(?:\[\d{1,3}(?:[,–-]\s?\d{1,3})*\])+(?![(\w])")
_LINK_TARGET = re.compile(r"^[ \t]*\[[^\]\n]+\]:[ \t]+\S+.*$", re.M)
_TAG_IN_CODE = re.compile(r"(?<=`)</?([A-Za-z][\w-]*)/?>(?=`)")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>")
_ENTITY = re.compile(r"&(?:#\d{1,6}|#x[0-9A-Fa-f]{1,5}|[A-Za-z]{2,16});")
_IMAGE_OR_LINK = re.compile(
    r"!?\[([^\[\]\n]*)\](?:\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+\"[^\"]*\")?\)|\[[^\]\n]*\])"
)
_AUTOLINK = re.compile(r"<((?:https?://|mailto:)?[^\s<>@]+(?:[.@:])[^\s<>]+)>")
_FOOTNOTE = re.compile(r"\[\^[^\]\n]{1,20}\]")
_TASK_BOX = re.compile(r"^(\s*(?:[-*+]|\d{1,3}[.)])\s+)\[[ xX]\]\s+", re.M)
_HEADING_MARK = re.compile(r"^[ \t]*#{1,6}[ \t]+", re.M)
_QUOTE_MARK = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.M)
_BULLET = re.compile(r"^[ \t]*[-*+•‣◦▪·–][ \t]+", re.M)
_NUMBERED = re.compile(r"^([ \t]*)(\d{1,3})[.)](?=[ \t])", re.M)
_RULE = re.compile(r"^[ \t]*(?:(?:[-*_=][ \t]*){3,}|\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-*:?[ \t]*)+)$", re.M)
_FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.M)
_CELL_EDGE = re.compile(r"^[ \t]*\|[ \t]*|[ \t]*\|[ \t]*$", re.M)
_CELL_BREAK = re.compile(r"[ \t]*\|+[ \t]*")
_CODE_MARK = re.compile(r"`+")
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,3}(?=\S)|(?<=\S)\*{1,3}(?![\w*])|(?<!\d)\*{2,}|\*{2,}(?!\d)")
_EMPHASIS_INSIDE = re.compile(r"(?<=[^\W\d])\*([^\W\d]{2,})\*(?=[^\W\d])")
_UNDERSCORE = re.compile(r"(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)|_{2,}")
_STRIKE = re.compile(r"~~+")
_ESCAPE = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|>~$])")
_MATH = re.compile(r"\\[()\[\]]|\$\$|(?<![\w\\])\$(?=\s*$)")
_SNAKE = re.compile(r"(?<=\w)_(?=\w)")
_CALL = re.compile(r"(?<=\w)\(\)")


def _entity(match: re.Match[str]) -> str:
    return html.unescape(match.group()).replace("\xa0", " ")


def strip_inline(text: Tracked) -> Tracked:
    """Links become their text, tags go, entities become characters, emphasis and code marks go."""
    text = text.sub(_COMMENT, "").sub(_HIDDEN, "").sub(_CITATION, "")
    text = text.sub(_FENCE_LINE, "")
    text = text.sub(_IMAGE_OR_LINK, lambda match: match.group(1))
    text = text.sub(_FOOTNOTE, "")
    text = text.sub(_AUTOLINK, lambda match: match.group(1))
    text = text.sub(_TAG_IN_CODE, lambda match: match.group(1)).sub(_TAG, " ")
    text = text.sub(_ENTITY, _entity)
    text = text.sub(_MATH, " ")
    text = text.sub(_ESCAPE, lambda match: match.group(1) if match.group(1) not in "*_`#|~" else " ")
    text = text.sub(_CODE_MARK, "")
    text = text.sub(_STRIKE, "")
    text = text.sub(_EMPHASIS_INSIDE, lambda match: match.group(1))
    text = text.sub(_EMPHASIS, "")
    return text.sub(_UNDERSCORE, "")


def strip_lines(text: Tracked) -> Tracked:
    """Headings, quotes, bullets, rules and table edges, which stand at the start of a line."""
    text = text.sub(_RULE, "").sub(_LINK_TARGET, "")
    text = text.sub(_QUOTE_MARK, "")
    text = text.sub(_HEADING_MARK, "")
    text = text.sub(_TASK_BOX, lambda match: match.group(1))
    text = text.sub(_BULLET, "")
    text = text.sub(_NUMBERED, lambda match: f"{match.group(1)}{match.group(2)},")
    if "|" in text.text:
        text = text.sub(_CELL_EDGE, "")
    return text


def separate(text: Tracked) -> Tracked:
    """Cells of a table are heard one after the other, words of an identifier as words."""
    text = text.sub(_CELL_BREAK, ", ")
    return text.sub(_CALL, "").sub(_SNAKE, " ")
