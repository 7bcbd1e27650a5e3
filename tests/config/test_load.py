from __future__ import annotations

from pathlib import Path

import pytest

from app.config import Settings, known_keys, load_settings, settings_folder
from app.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]


def test_the_shipped_config_toml_sets_every_key_to_its_default() -> None:
    import tomllib

    tree = tomllib.loads((ROOT / "config.toml").read_text("utf-8"))
    assert {f"{section}.{key}" for section, values in tree.items() for key in values} == set(known_keys())
    shipped = load_settings(ROOT / "config.toml", environment={})
    defaults = Settings()
    assert shipped.runtime.model_store == ROOT / defaults.runtime.model_store
    assert shipped.model_copy(update={"runtime": defaults.runtime}) == defaults


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text, "utf-8")
    return path


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_right_one(tmp_path: Path) -> None:
    path = _write(tmp_path, '[asr]\nbeam_size = 1\n\n[llm]\nbackend = "local"\nmodle = "x"\n')
    with pytest.raises(ConfigError, match=r"line 6: unknown key 'llm\.modle'\. Did you mean 'llm\.model'\?"):
        load_settings(path, environment={})


def test_an_unknown_section_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 2: unknown section 'lmm'"):
        load_settings(_write(tmp_path, "# first\n[lmm]\nmodel = 'x'\n"), environment={})


def test_a_key_in_the_wrong_section_is_pointed_to_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'vad.pre_roll_ms'"):
        load_settings(_write(tmp_path, "[turn]\npre_roll_ms = 400\n"), environment={})


def test_a_wrong_value_is_named_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 2: server\.port = 99999 is wrong: .*65535"):
        load_settings(_write(tmp_path, "[server]\nport = 99999\n"), environment={})


def test_a_file_that_is_not_toml_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_settings(_write(tmp_path, "[llm\n"), environment={})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_settings(tmp_path / "none.toml", environment={})


def test_environment_overrides_the_file_and_flags_override_both(tmp_path: Path) -> None:
    path = _write(tmp_path, "[llm]\nmax_tokens = 10\ntop_k = 3\n")
    environment = {"PARLEY_LLM__MAX_TOKENS": "20", "PARLEY_ASR__LANGUAGES": "en, zh", "HOME": "/"}
    settings = load_settings(path, environment=environment, overrides={"llm.max_tokens": "30"})
    assert settings.llm.max_tokens == 30
    assert settings.llm.top_k == 3
    assert settings.asr.languages == ("en", "zh")
    assert load_settings(path, environment=environment).llm.max_tokens == 20


@pytest.mark.parametrize(
    "written", ['["en","de"]', "['en', 'de']", ' [ "en", "de", ]', "en,de", " en , de, ", '["en",\n"de"]']
)
def test_a_list_is_read_in_each_form_that_people_write(tmp_path: Path, written: str) -> None:
    path = _write(tmp_path, "")
    assert load_settings(path, environment={}, overrides={"asr.languages": written}).asr.languages == ("en", "de")
    assert load_settings(path, environment={"PARLEY_ASR__LANGUAGES": written}).asr.languages == ("en", "de")


def test_an_empty_list_and_a_list_of_one_are_lists(tmp_path: Path) -> None:
    path = _write(tmp_path, "[server]\napi_keys = ['old']\n")
    for written, meant in (("[]", ()), ("", ()), ('["k1"]', ("k1",)), ("k1", ("k1",)), ('["a,b"]', ("a,b",))):
        settings = load_settings(path, environment={}, overrides={"server.api_keys": written})
        assert settings.server.api_keys == meant


@pytest.mark.parametrize("written", ["[en,de]", '["en"', '["en"] and "de"', '["en"]\nother = 1'])
def test_a_list_that_cannot_be_read_is_told_with_the_forms_that_can(tmp_path: Path, written: str) -> None:
    with pytest.raises(ConfigError, match=r"--set asr\.languages: .* is no list; write one like en,de or like"):
        load_settings(_write(tmp_path, ""), environment={}, overrides={"asr.languages": written})


def test_a_string_where_a_list_is_wanted_is_shown_as_a_list(tmp_path: Path) -> None:
    path = _write(tmp_path, '[asr]\nlanguages = "en, de"\n')
    wanted = r"""line 2: asr\.languages = 'en, de' is wrong: a list is wanted, like \["en", "de"\]\."""
    with pytest.raises(ConfigError, match=wanted):
        load_settings(path, environment={})


def test_a_misspelt_variable_is_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"PARLEY_LLM__MODLE: unknown key .* Did you mean 'llm\.model'"):
        load_settings(_write(tmp_path, ""), environment={"PARLEY_LLM__MODLE": "x"})


def test_a_certificate_lies_beside_config_toml_too_and_so_does_what_parley_makes(tmp_path: Path) -> None:
    path = _write(tmp_path, "[server]\ncertificate = 'tls/mine.pem'\nprivate_key = '/etc/key.pem'\n")
    server = load_settings(path, environment={}).server
    assert (server.certificate, server.private_key) == (str(tmp_path / "tls" / "mine.pem"), "/etc/key.pem")
    assert load_settings(_write(tmp_path, ""), environment={}).server.certificate == ""
    assert settings_folder(path) == tmp_path


def test_the_model_store_lies_beside_config_toml(tmp_path: Path) -> None:
    settings = load_settings(_write(tmp_path, "[runtime]\nmodel_store = 'weights'\n"), environment={})
    assert settings.runtime.model_store == tmp_path / "weights"


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("[vad]\nrelease_threshold = 0.6", r"vad\.release_threshold = 0\.6 must be below vad\.threshold = 0\.5\."),
        ("[vad]\nlikely_ms = 100", r"vad\.likely_ms = 100 must be at most vad\.min_speech_ms = 80\."),
        ("[turn]\nbarge_in_ms = 1200", r"turn\.barge_in_ms = 1200 must be below turn\.barge_in_max_ms = 1200\."),
        ("[turn]\nlook_ms = 2001", r"turn\.look_ms = 2001 must be at most turn\.max_wait_ms = 2000\."),
        ("[asr]\npartial_ms = 50", r"asr\.partial_ms = 50 is wrong: 0 \(never\) or at least 200 is wanted\."),
    ],
)
def test_values_that_exclude_each_other_or_make_no_sense_are_named_with_their_line(
    tmp_path: Path, section: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=rf"config\.toml, line 2: {told}$"):
        load_settings(_write(tmp_path, section + "\n"), environment={})


def test_of_two_values_that_exclude_each_other_both_places_are_named(tmp_path: Path) -> None:
    told = r"line 2 and flag for vad\.threshold: vad\.release_threshold = 0\.3 must be below vad\.threshold = 0\.2\."
    with pytest.raises(ConfigError, match=told):
        load_settings(
            _write(tmp_path, "[vad]\nrelease_threshold = 0.3\n"), environment={}, overrides={"vad.threshold": "0.2"}
        )


def test_no_partial_transcriptions_are_asked_for_by_nought(tmp_path: Path) -> None:
    assert load_settings(_write(tmp_path, "[asr]\npartial_ms = 0\n"), environment={}).asr.partial_ms == 0


def test_all_that_is_wrong_is_told_at_once_and_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = _write(
        tmp_path, '[tts]\nspeedy = 1\n\n[llm]\ntop_k = "many"\n\n[server]\nport = 99999999\n\n[asr]\nlanguages = "en"\n'
    )
    with pytest.raises(ConfigError) as told:
        load_settings(path, environment={"PARLEY_LLM__TOP_P": "high"})
    places = [line.partition(": ")[0].removeprefix(f"{path}, ") for line in str(told.value).splitlines()]
    assert places == ["line 2", "line 5", "line 8", "line 11", "environment variable PARLEY_LLM__TOP_P"]
