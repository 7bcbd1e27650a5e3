"""The picture of a conversation in a terminal of any size: pure, from transcript to lines."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.text import Text

from app.cli.conversation_lines import STATES
from app.cli.transcript import Latency, Line, Transcript

_LABELS = {"you": ("You", "bold cyan"), "parley": ("Parley", "bold green"), "note": ("", "yellow")}
_INDENT = 8
_NARROW = 50
"""Columns below which labels stand on a line of their own."""
_STATE_STYLES = {
    "listening": "green",
    "hearing": "bold cyan",
    "thinking": "yellow",
    "speaking": "bold green",
    "reconnecting": "bold red",
    "asleep": "dim",
    "closed": "dim",
}
_STATES = {**STATES, "reconnecting": "reconnecting", "asleep": "asleep", "closed": "closed", "loading": "loading"}
_BETWEEN = " · "
_FLOOR_DB, _TOP_DB = -60.0, -6.0
_EIGHTHS = " ▏▎▍▌▋▊▉"


def picture(
    transcript: Transcript,
    console: Console,
    *,
    width: int,
    height: int,
    levels: tuple[float, float] | None,
    hint: str,
    typing: str | None,
) -> RenderableType:
    """``height`` lines, none wider than ``width`` cells: the end of what was said, then how things stand."""
    foot = [_status(transcript, width, levels)]
    if transcript.latency.last_ms is not None:
        foot.append(_latency(transcript.latency, transcript.latency.last_ms, width))
    if typing is not None:
        foot.append(_prompt(typing, width))
    foot.append(_cut(Text(_fitting(hint, width), style="dim"), width))
    foot = foot[-max(1, height - 1) :] if height < len(foot) + 2 else [Text("─" * width, style="dim"), *foot]
    body = _last_lines(transcript.lines, console, width, max(0, height - len(foot)))
    blank = [Text("")] * (height - len(foot) - len(body))
    return Text("\n").join([*blank, *body, *foot])


def _last_lines(lines: Iterable[Line], console: Console, width: int, room: int) -> list[Text]:
    """As much of the end as there is room for, wrapped."""
    shown: list[Text] = []
    for line in reversed(list(lines)):
        if len(shown) >= room:
            break
        shown = [*said(line, console, width), *shown]
    return shown[len(shown) - room :] if len(shown) > room else shown


def said(line: Line, console: Console, width: int) -> list[Text]:
    """One turn: heard words bright, words still to come dim, words never heard struck through."""
    label, style = _LABELS[line.speaker]
    text = Text(overflow="fold")
    if line.speaker == "parley":
        text.append(_paragraphs_joined(line.text[: line.heard]))
        text.append(_paragraphs_joined(line.text[line.heard :]), style="dim strike" if line.over else "dim")
    else:
        text.append(line.text, style="dim italic" if not line.over else style if line.speaker == "note" else "")
    narrow = width < _NARROW or not label
    indent = 0 if narrow else _INDENT
    wrapped = list(text.wrap(console, max(1, width - indent), overflow="fold"))
    if narrow:
        return [Text(label, style=style), *wrapped] if label else wrapped
    first = Text(label.ljust(indent), style=style)
    return [(first if number == 0 else Text(" " * indent)) + part for number, part in enumerate(wrapped)]


def _paragraphs_joined(text: str) -> str:
    """By one space, where their line breaks became several (``app.cli.transcript.printable``)."""
    return re.sub(" {2,}", " ", text)


def _status(transcript: Transcript, width: int, levels: tuple[float, float] | None) -> Text:
    state = transcript.state
    text = Text("● ", style=_STATE_STYLES.get(state, "green"))
    text.append(_STATES.get(state, state).ljust(13))
    if levels is not None:
        speaking = state == "speaking"
        room = min(30, width - cell_len(text.plain) - 8)
        if room >= 4:
            text.append("Parley " if speaking else "you    ", style="dim")
            text.append(bar(levels[1 if speaking else 0], room), style="green" if speaking else "cyan")
    return _cut(text, width)


def bar(db: float, cells: int) -> str:
    """A meter of that many cells, in eighths: -60 dBFS is empty, -6 dBFS is full."""
    share = min(1.0, max(0.0, (db - _FLOOR_DB) / (_TOP_DB - _FLOOR_DB)))
    eighths = round(share * cells * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(cells, "·")


def _latency(latency: Latency, last_ms: float, width: int) -> Text:
    text = Text(f"{latency.what} {last_ms:.0f} ms", style="dim")
    if latency.turns > 1:
        text.append(f"   p50 {latency.percentile(50):.0f}   p95 {latency.percentile(95):.0f}   {latency.turns} turns")
    return _cut(text, width)


def _prompt(typed: str, width: int) -> Text:
    """The end of what is being typed, with a cursor."""
    room = max(1, width - 3)
    shown = typed[-room:]  # of a text of any length; each character takes a cell or two
    while cell_len(shown) > room:
        shown = shown[1:]
    return _cut(Text.assemble(("> ", "bold cyan"), shown, ("▏", "cyan")), width)


def _fitting(hint: str, width: int) -> str:
    """As many of its parts as there is room for; the first, what to do now, and the last, how to end, matter most."""
    parts = hint.split(_BETWEEN)
    while len(parts) > 2 and cell_len(_BETWEEN.join(parts)) > width:
        del parts[-2]
    return _BETWEEN.join(parts if cell_len(_BETWEEN.join(parts)) <= width else parts[:1])


def _cut(text: Text, width: int) -> Text:
    """No wider than that; a wide character is never halved."""
    if cell_len(text.plain) <= width:
        return text
    return Text(set_cell_size(text.plain, width), style=text.style, spans=text.spans)
