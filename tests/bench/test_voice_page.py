"""What is printed, written as JSON, and put into the page."""

from __future__ import annotations

import json

import pytest

from app.bench.voice.clients import Outcome
from app.bench.voice.listening import Gap
from app.bench.voice.run import Measured, Watched
from app.bench.voice.summary import figures
from app.bench.voice.turn import Stop, Turn
from app.cli.bench.voice import _as_json, _details, _overview
from benchmarks.voice import page


def turn(number: int, *, answered: bool = True, stop: Stop | None = None, gaps: tuple[Gap, ...] = ()) -> Turn:
    timings = {"endpoint": 210.0, "llm_first_token": 30.0, "voice_to_voice": 400.0}
    question = "How are you today?"
    heard = question if answered else ""
    ms = 440.0 + 10 * number if answered else None
    early = {"ms": 120.0, "wasted_tokens": 3.0}
    return Turn(0, number, question, "hibari", heard, "Well.", answered, ms, False, timings, early, (), gaps, stop)


@pytest.fixture
def measured() -> Measured:
    turns = (
        turn(0),
        turn(1, gaps=(Gap(1.0, 80.0, "late"),)),
        turn(2, stop=Stop(True, 120.0, 510.0)),
        turn(3, answered=False),
    )
    outcome = Outcome(turns, 4, 60.0, 3.0, ("caller 0: connection closed",), 0.4, 2.0, 9.0)
    watched = Watched(0.3, 0.6, 0.05, 1800.0, 1790.0, 1500.0, 8.0, 31.0, 40.0)
    return Measured(1, 4, ("hibari", "piper"), outcome, watched)


def test_figures_count_what_was_answered_and_what_was_not(measured: Measured) -> None:
    row = figures(measured)
    assert (row.turns, row.answered, row.stops, row.stops_obeyed) == (4, 3, 1, 1)
    assert row.voice_to_voice_ms is not None
    assert (row.voice_to_voice_ms.p50, row.voice_to_voice_ms.max) == (450.0, 460.0)
    assert row.word_error_rate == pytest.approx(0.25)
    assert row.gaps == {"late": 1}
    assert row.early_wasted_tokens == 12.0


def test_the_page_shows_what_the_command_wrote(measured: Measured) -> None:
    written = json.loads(json.dumps(_as_json(measured, figures(measured))))
    text = page({"machine": {"processor": "a good one"}, "runs": [written]})
    assert "| 1 | 450 | 459 | 460 | 1 of 4 | 25.0 % | 120 (120) | 510 (510) | 1 of 1 | 1.8 GB |" in text
    assert "| `endpoint` | 210 |" in text
    assert "39 of 96" in text


def test_the_tables_of_the_command_can_be_printed(measured: Measured) -> None:
    from rich.console import Console

    console = Console(width=120, record=True)
    row = figures(measured)
    console.print(_details(measured, row), _overview([(measured, row)]))
    shown = console.export_text()
    assert "caller 0: connection closed" in shown
    assert "3 of 4" in shown
