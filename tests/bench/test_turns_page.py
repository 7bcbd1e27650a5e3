from __future__ import annotations

from dataclasses import asdict

from app.bench.turns.cases import Must
from app.bench.turns.summary import by_category, summarise
from app.bench.turns.verdict import Fault, Verdict
from app.bench.turns.words import WordErrors
from benchmarks import report, turns

VERDICTS = [
    Verdict("question-1", "question", Must.ANSWER, True, (), 12.0, 310.0, 330.0, 480.0, words=WordErrors(6, 1, 1)),
    Verdict("pause-1", "pause", Must.ANSWER, True, ((Fault.CUT_IN, "was heard 90 ms early"),), 9.0, 290.0, 300.0),
    Verdict("stop-1", "stop", Must.STOP, False, (), 11.0, ducked_ms=140.0, silent_ms=510.0),
]


def result() -> dict[str, object]:
    measured = {
        "jobs": 2,
        "wall_s": 300.2,
        "own_cores": 0.81,
        "other_cores": 0.05,
        "left_out": ["aiortc's demo recording"],
        "summary": asdict(summarise(VERDICTS)),
        "categories": {name: asdict(summary) for name, summary in by_category(VERDICTS).items()},
        "cases": [asdict(verdict) for verdict in VERDICTS],
    }
    return {"machine": {"processor": "two cores"}, "turns": measured}


def test_the_page_shows_delays_faults_categories_and_what_is_left_out() -> None:
    page = turns.page(result())
    assert "- cores kept busy: 0.81 with Parley and the benchmark, 0.05 with anything else" in page
    assert "| end of turn: last sample of speech to declared over | 290 | 310 | 310 | 2 |" in page
    assert "| interrupted: to silence | 510 | 510 | 510 | 1 |" in page
    assert "| false cut-ins (heard before the end, or a turn taken for two) | 1 | 2 | 50.0 % |" in page
    assert "| question | 1 | 1 | 310 | 310 | 480 |" in page
    assert "Of 6 words said without noise 1 were wrong, 1 of them lost." in page
    assert "- `pause-1`: cut in: was heard 90 ms early" in page
    assert "Left out: aiortc's demo recording" in page
    assert "not interrupted" not in page, "what was not measured has no row"


def test_the_page_has_a_place_for_it() -> None:
    text = report.PAGE.read_text("utf-8")
    assert text.index("<!-- bench:turns -->") < text.index("<!-- /bench:turns -->")
