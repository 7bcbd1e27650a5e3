"""Two turns' stages side by side, on one scale of time."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from app.replay.course import Course
from app.telemetry.trace import STAGE_NAMES

_WHOLE = "voice_to_voice"
_STAGES = [(name, words) for name, words in STAGE_NAMES.items() if name != _WHOLE]
_CELLS = 22
_STYLES = {"endpoint": "cyan", "asr": "blue", "queue": "dim", "prefill": "dim", "tts_first_audio": "magenta"}
_Span = tuple[float, float]


def waterfalls(then: Course, now: Course) -> Table:
    """A table of bars; times in ms since the end of speech (of the request, where it was typed)."""
    every = [*then.spans_ms.values(), *now.spans_ms.values()]
    first, last = min((start for start, _ in every), default=0.0), max((end for _, end in every), default=1.0)
    table = Table(box=None, pad_edge=False)
    table.add_column("ms", style="bold", no_wrap=True)
    for title in ("then", "now"):
        table.add_column(title, no_wrap=True)
        table.add_column("", justify="right", no_wrap=True)
    for name, words in _STAGES:
        if name in then.spans_ms or name in now.spans_ms:
            cells: list[Text | str] = []
            for spans in (then.spans_ms, now.spans_ms):
                cells += [_bar(spans.get(name), first, last, _STYLES.get(name, "green")), _length(spans, name)]
            table.add_row(words, *cells)
    if _WHOLE in then.timings_ms or _WHOLE in now.timings_ms:
        table.add_row(STAGE_NAMES[_WHOLE], "", _whole(then), "", _whole(now), style="bold")
    return table


def print_plain(then: Course, now: Course) -> None:
    """The same as lines, from where to where."""
    print(f"{'ms':<16}{'then':>18}{'now':>18}")
    for name, words in _STAGES:
        if name in then.spans_ms or name in now.spans_ms:
            print(f"{words:<16}{_from_to(then.spans_ms, name):>18}{_from_to(now.spans_ms, name):>18}")
    if _WHOLE in then.timings_ms or _WHOLE in now.timings_ms:
        print(f"{STAGE_NAMES[_WHOLE]:<16}{_whole(then):>18}{_whole(now):>18}")


def _bar(span: _Span | None, first: float, last: float, style: str) -> Text:
    if span is None:
        return Text("")
    scale = _CELLS / max(last - first, 1.0)
    start = min(int((span[0] - first) * scale), _CELLS - 1)
    length = max(1, round((span[1] - span[0]) * scale))
    return Text(" " * start) + Text("━" * min(length, _CELLS - start), style)


def _length(spans: Mapping[str, _Span], name: str) -> str:
    return f"{spans[name][1] - spans[name][0]:.0f}" if name in spans else "–"


def _from_to(spans: Mapping[str, _Span], name: str) -> str:
    return f"{spans[name][0]:.0f} to {spans[name][1]:.0f}" if name in spans else "-"


def _whole(course: Course) -> str:
    whole = course.timings_ms.get(_WHOLE)
    return f"{whole:.0f}" if whole is not None else "–"
