"""Which Prefect API a command uses."""

from rcll.prefect_server import find_api

URL = "http://127.0.0.1:4200/api"


def test_environment_stands_above_the_active_profile(monkeypatch, tmp_path):
    """PREFECT_API_URL wins; else the active profile's; else there is none."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.delenv("PREFECT_PROFILE", raising=False)
    monkeypatch.delenv("PREFECT_PROFILES_PATH", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    assert find_api() is None
    profiles = f'active = "team"\n[profiles.local]\n[profiles.team]\nPREFECT_API_URL = "{URL}"\n'
    (tmp_path / "profiles.toml").write_text(profiles, encoding="utf-8")
    assert find_api() == URL
    monkeypatch.setenv("PREFECT_PROFILE", "local")
    assert find_api() is None
    monkeypatch.setenv("PREFECT_API_URL", "http://elsewhere:4200/api")
    assert find_api() == "http://elsewhere:4200/api"
    (tmp_path / "profiles.toml").write_text("not = [toml", encoding="utf-8")
    monkeypatch.delenv("PREFECT_API_URL")
    assert find_api() is None
