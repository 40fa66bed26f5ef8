"""Settings come from RCLL_* and rcll.toml; what cannot be used is named, and values are never shown."""

import pytest

from rcll.errors import InputError
from rcll.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        ("RCLL_TAXONOMI", "RCLL_TAXONOMY"),
        ("RCLL_TUNNEL_PAIR", "RCLL_TUNNEL_PAIRS"),
        ("RCLL_DATABASEURL", "RCLL_DATABASE_URL"),
        ("RCLL_CONFG", "RCLL_CONFIG"),
    ],
)
def test_mistyped_variable_is_refused(monkeypatch, found, meant):
    """A variable that is nearly ours would be passed over in silence; expect its name and the one that was meant."""
    monkeypatch.setenv(found, "hidden")
    with pytest.raises(InputError, match=f"{found} is no setting; expected {meant}") as caught:
        load_settings()
    assert "hidden" not in str(caught.value)


def test_variables_of_others_are_let_be(monkeypatch):
    """Those of another program, a fork's server for example, are not ours to judge."""
    monkeypatch.setenv("RCLL_HTTP_WORKERS", "4")
    monkeypatch.setenv("RCLL_SEED", "1")
    assert load_settings().rate is None


def test_no_setting_is_taken_for_a_slip_of_another(monkeypatch):
    """Every name of ours may be set."""
    for name in Settings.model_fields:
        monkeypatch.setenv(f"RCLL_{name.upper()}", "x")
    with pytest.raises(InputError, match=r"cannot be used|no JSON"):
        load_settings()


def test_file_is_read_and_the_environment_wins(tmp_path, monkeypatch):
    """A word of the file holds until a variable says otherwise."""
    (tmp_path / "rcll.toml").write_text("batch = 7\nlayers = true\n")
    monkeypatch.setenv("RCLL_BATCH", "9")
    settings = load_settings()
    assert (settings.batch, settings.layers) == (9, True)


def test_mistyped_word_of_the_file_is_refused(tmp_path):
    """Expect the word that rcll does not know."""
    (tmp_path / "rcll.toml").write_text("tunnel_pair = []\n")
    with pytest.raises(InputError, match="'tunnel_pair' cannot be used"):
        load_settings()


def test_password_is_not_shown(monkeypatch):
    """A URL that cannot be used stays out of the message and of the settings' text."""
    monkeypatch.setenv("RCLL_DATABASE_URL", "postgresql://u:hunter2@h/d")
    assert "hunter2" not in repr(load_settings())
    monkeypatch.setenv("RCLL_BATCH", "hunter2")
    with pytest.raises(InputError, match="'batch' cannot be used") as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)
