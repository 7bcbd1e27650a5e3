"""What leaves a prompt and what stays: never the pinned, never the last question, never more than there is room for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.llm.memory import Budget, Entry, TokenGauge, cut, prompt_tokens, system_text, turns_before

entry = st.builds(
    Entry,
    role=st.sampled_from(["user", "assistant"]),
    tokens=st.integers(1, 200),
    pinned=st.sampled_from([False] * 5 + [True]),
)
conversations = st.lists(entry, min_size=1, max_size=40)


def turn(tokens: int = 10) -> list[Entry]:
    return [Entry("user", tokens), Entry("assistant", tokens)]


@given(conversations, st.integers(0, 60), st.integers(0, 100), st.integers(1, 800), st.integers(1, 1600), st.data())
def test_a_cut_keeps_the_last_question_and_fits_whenever_anything_would(
    entries: list[Entry], before: int, fixed: int, aim: int, room: int, data: st.DataObject
) -> None:
    users = [index for index, one in enumerate(entries) if one.role == "user"]
    start = data.draw(st.integers(0, users[-1] if users else 0))
    found = cut(entries, start, fixed, aim=min(aim, room), room=room)
    assert start <= found <= max(start, users[-1] if users else start), "the last message of the user stays"
    shortest = prompt_tokens(entries, users[-1] if users else start, fixed)
    if shortest <= room:
        assert prompt_tokens(entries, found, fixed) <= room
    pinned = sum(one.tokens for one in entries if one.pinned)
    assert prompt_tokens(entries, found, fixed) >= fixed + pinned, "pinned ones stay wherever they are"


@given(conversations, st.integers(1, 400))
def test_a_cut_lies_between_turns_unless_one_side_alone_is_too_long(entries: list[Entry], room: int) -> None:
    found = cut(entries, 0, 0, aim=room // 2, room=room)
    if found > 0 and not (entries[found].role == "user" and entries[found - 1].role == "assistant"):
        turns = [i for i in range(1, len(entries)) if entries[i].role == "user" and entries[i - 1].role == "assistant"]
        later = [index for index in turns if index >= found]
        assert entries[found].role == "user"
        assert not later, "there was a turn to cut at"
        assert prompt_tokens(entries, max(turns, default=0), 0) > room


def test_what_fits_is_left_alone_and_what_does_not_is_cut_well_below_the_mark() -> None:
    entries = turn() * 10
    assert cut(entries, 0, 20, aim=220, room=300) == 0
    found = cut(entries, 0, 20, aim=100, room=200)
    assert found == 12, "four turns of 20 and the system message's 20 are the most that is within 100"
    assert turns_before(entries, found) == 6


def test_a_second_cut_begins_where_the_first_ended() -> None:
    entries = turn() * 10
    assert cut(entries, 14, 0, aim=10_000, room=10_000) == 14


def test_a_conversation_of_two_thousand_messages_is_cut_in_linear_time() -> None:
    calls = 0

    class Counting(list[Entry]):
        def __getitem__(self, index):  # type: ignore[no-untyped-def]
            nonlocal calls
            calls += 1
            return super().__getitem__(index)

    entries = Counting(turn() * 1000)
    cut(entries, 0, 0, aim=50, room=100)
    assert calls < 4 * len(entries)


def test_the_summary_is_due_before_the_prompt_has_no_room_left() -> None:
    for context in (256, 512, 4096, 32768):
        budget = Budget(context, 96)
        assert 0 < budget.aim < budget.summarise_from < budget.room < context - 96
        assert budget.summary_tokens < budget.aim or context == 256


def test_a_context_smaller_than_the_reply_still_has_a_budget() -> None:
    budget = Budget(128, 160)
    assert budget.room == 1
    assert cut(turn(), 0, 5, aim=budget.aim, room=budget.room) == 0


@given(st.lists(st.text(max_size=200), min_size=1, max_size=20), st.floats(0.5, 3.0))
def test_a_measured_gauge_tells_the_length_of_what_it_was_measured_on(texts: list[str], truth: float) -> None:
    real = sum(TokenGauge(truth).tokens(text) for text in texts)
    gauge = TokenGauge().calibrated(texts, real)
    estimate = sum(gauge.tokens(text) for text in texts)
    assert abs(estimate - real) <= 2 * len(texts), "rounding up, once a message"


def test_a_gauge_learns_nothing_from_a_server_that_does_not_count() -> None:
    gauge = TokenGauge()
    assert gauge.calibrated(["hello"], 0) is gauge
    assert gauge.calibrated([""], 12) is gauge


def test_absurd_counts_do_not_make_the_gauge_absurd() -> None:
    assert TokenGauge().calibrated(["hello there"], 10**6).tokens("hello there") < 50
    assert TokenGauge().calibrated(["hello there " * 50], 1).tokens("hello there " * 50) > 40


def test_text_of_three_bytes_a_character_counts_for_more() -> None:
    assert TokenGauge().tokens("你好你好你好你好") > 2 * (TokenGauge().tokens("hihihihi") - 8)


def test_lone_surrogates_have_a_length_too() -> None:
    assert TokenGauge().tokens("\ud800") > 0


def test_the_system_message_begins_with_the_prompt_so_that_a_new_summary_keeps_it_computed() -> None:
    plain = system_text("Be kind.", "", left_out=False)
    assert plain == "Be kind."
    with_summary = system_text("Be kind.", "Ann likes tea.", left_out=False)
    assert with_summary.startswith("Be kind.\n\n")
    assert "Ann likes tea." in with_summary
    assert "left out" in system_text("", "", left_out=True)


def test_where_the_user_spoke_often_without_an_answer_the_cut_lies_among_those() -> None:
    entries = [*turn(), *[Entry("user", 50)] * 10]
    assert cut(entries, 0, 0, aim=60, room=120) == 10, "the last two are what fits"
    assert cut(entries, 0, 0, aim=20, room=30) == 11, "the last one stays even so"
