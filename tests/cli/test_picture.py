"""The picture in terminals of every size, in words of every width."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from app.cli.picture import bar, picture
from app.cli.transcript import Line, Transcript

_CHINESE = "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。"


def shown(transcript: Transcript, width: int, height: int, *, hint: str = "Speak · space mutes · q ends", typing: str | None = None) -> list[str]:  # fmt: skip
    console = Console(file=io.StringIO(), width=width, height=height)
    levels = (-20.0, -80.0)
    result = picture(transcript, console, width=width, height=height, levels=levels, hint=hint, typing=typing)
    return str(result).split("\n")


def talk(*lines: Line) -> Transcript:
    transcript = Transcript(state="speaking")
    transcript.lines.extend(lines)
    transcript.latency.add(("answered after", 640.0))
    return transcript


@pytest.mark.parametrize("width", [1, 8, 20, 49, 50, 90, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 5, 24])
def test_it_fills_the_terminal_and_nothing_sticks_out(width: int, height: int) -> None:
    transcript = talk(Line("you", _CHINESE, over=True), Line("parley", f"Paris. {_CHINESE}" * 3, heard=9))
    lines = shown(transcript, width, height, typing=_CHINESE)
    assert len(lines) == height
    assert max(cell_len(line) for line in lines) <= max(width, 2)  # one wide character needs two cells


def test_the_end_of_a_long_conversation_is_what_is_seen() -> None:
    transcript = talk(*[Line("you", f"word {number}", over=True) for number in range(50)])
    text = "\n".join(shown(transcript, 60, 10))
    assert "word 49" in text
    assert "word 1\n" not in text


def test_heard_words_are_bright_words_to_come_dim_and_unheard_ones_struck() -> None:
    console = Console(file=io.StringIO(), width=60, height=10)

    def styles(over: bool) -> list[str]:
        transcript = talk(Line("parley", "heard unheard", heard=6, over=over))
        text = picture(transcript, console, width=60, height=10, levels=None, hint="", typing=None)
        return [str(span.style) for span in text.spans if str(text)[span.start : span.end] == "unheard"]

    assert styles(over=False) == ["dim"]
    assert styles(over=True) == ["dim strike"]


def test_a_hint_without_room_keeps_what_to_do_and_how_to_end() -> None:
    assert shown(talk(), 20, 10)[-1] == "Speak · q ends"


def test_the_end_of_what_is_typed_is_seen() -> None:
    line = shown(talk(), 20, 10, typing="a very long question, is it?")[-2]
    assert line.startswith("> ")
    assert line.endswith("is it?▏")


@pytest.mark.parametrize(("db", "full"), [(-80.0, 0), (-60.0, 0), (-33.0, 5), (-6.0, 10), (0.0, 10)])
def test_the_meter_is_empty_at_60_db_below_and_full_at_6(db: float, full: int) -> None:
    assert bar(db, 10).count("█") == full
    assert len(bar(db, 10)) == 10
