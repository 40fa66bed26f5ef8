"""Vectors of closets: always in the bank's space, of length one, and refused where they do not fit.

The embedding server is the double over a real socket: it tests transport and checks, not the vectors' sense.
"""

import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pydantic import SecretStr

from rcll.errors import ModelError
from rcll.models.client import Endpoint
from rcll.models.embed import (
    OfflineEmbedder,
    OpenAIEmbedder,
    SpaceMismatch,
    centroid,
    choose_embedder,
    shares_space,
)
from rcll.settings import Settings
from tests.doubles import openai_double as double_

TEXTS = ["The dump failed on Sunday.", "Sunday's dump failed again.", "Zebras graze.", ""]


def _make(double, dims=256, *, model=double_.MODEL, key=double_.KEY, timeout_s=5.0):
    return OpenAIEmbedder(Endpoint(model, double.base_url, SecretStr(key), "RCLL_EMBED", timeout_s, 0), dims)


def _lengths(rows):
    return np.linalg.norm(rows, axis=1)


def test_offline_vectors():
    """256 float32 numbers of length one a text; like texts lie near; a blank one is a row of zeros."""
    rows = OfflineEmbedder().embed(TEXTS)
    assert (rows.shape, rows.dtype) == ((4, 256), np.float32)
    np.testing.assert_allclose(_lengths(rows), [1, 1, 1, 0], atol=1e-5)
    assert rows[0] @ rows[1] > 0.7 > rows[0] @ rows[2]


def test_offline_does_not_depend_on_company():
    """A text has the same vector alone, in any order, and beside a text of megabytes."""
    embedder = OfflineEmbedder()
    texts = [f"memory {i} " * (i + 1) for i in range(100)]
    rows = embedder.embed([*texts, "log line\n" * 600_000])
    np.testing.assert_allclose(embedder.embed(texts[::-1])[::-1], rows[:100], atol=1e-6)
    np.testing.assert_allclose(embedder.embed(texts[40:41])[0], rows[40], atol=1e-6)


def test_offline_needs_no_network_and_leaves_logging_alone():
    """Loading the model adds no handler to the root logger, which would print every library's lines."""
    before = list(logging.getLogger().handlers)
    OfflineEmbedder().embed(["x"])
    assert logging.getLogger().handlers == before


def test_offline_of_nothing():
    """No texts, no rows."""
    assert OfflineEmbedder().embed([]).shape == (0, 256)


def test_online_vectors(openai_double):
    """Vectors come as base64, in batches, last first from this server, and end in the order of the texts."""
    texts = [f"memory number {i}" for i in range(150)]
    rows = _make(openai_double).embed(texts)
    assert (rows.shape, rows.dtype, openai_double.n_requests) == ((150, 256), np.float32, 3)
    assert openai_double.requests[0].body["encoding_format"] == "base64"
    np.testing.assert_allclose(_lengths(rows), 1, atol=1e-5)
    np.testing.assert_allclose(rows[77], _make(openai_double).embed(texts[77:78])[0], atol=1e-6)


def test_online_blank_texts_are_not_sent(openai_double):
    """Servers refuse blank inputs: they get a row of zeros without a call."""
    assert not _make(openai_double).embed(["", "  "]).any()
    assert openai_double.n_requests == 0
    assert _lengths(_make(openai_double).embed(["", "dump"])).round(5).tolist() == [0, 1]


def test_online_texts_are_masked_and_cut(openai_double):
    """No secret and no megabyte leaves."""
    _make(openai_double).embed(["password=hunter2 " + "log " * 100_000])
    sent = openai_double.requests[0].text
    assert "hunter2" not in sent
    assert len(sent) <= 4_000


def test_dimension_mismatch(openai_double):
    """Found, expected and what to do, in one line; nothing is returned."""
    openai_double.faults.append(double_.WRONG_DIMS)
    with pytest.raises(SpaceMismatch, match=r"7 dimensions; expected 256.*RCLL_EMBED_MODEL"):
        _make(openai_double).embed(["x"])


BODIES = {
    "no-list": b"{}",
    "null": b'{"object":"list","data":null,"model":"m"}',
    "too-few": b'{"object":"list","data":[],"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}',
    "nan": b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[NaN, 1.0]}],"model":"m"}',
    "broken": b'{"object": "li',
}


@pytest.mark.parametrize("name", BODIES)
def test_unusable_vectors(openai_double, name):
    """A broken body, no vectors, too few and NaN are refused, never stored."""
    openai_double.faults.append(double_.Fault(body=BODIES[name]))
    with pytest.raises(ModelError, match="embedder 'test-model'"):
        _make(openai_double, 2).embed(["x"])


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (double_.UNAUTHORISED, "RCLL_EMBED_API_KEY"),
        (double_.NO_MODEL, "RCLL_EMBED_MODEL"),
        (double_.RATE_LIMITED, "429"),
        (double_.UNAVAILABLE, "503"),
        (double_.HANG, "no answer in time"),
        (double_.DROPPED, "no connection"),
    ],
)
def test_online_faults(openai_double, fault, expected):
    """Whatever the transport does ends as a ModelError with what to do."""
    openai_double.faults.append(fault)
    with pytest.raises(ModelError, match=expected):
        _make(openai_double, timeout_s=0.2).embed(["x"])


def test_choice(openai_double, tmp_path):
    """A named model first; wordllama in own banks; else None, which stands for the centroid."""
    plain = Settings(home=tmp_path)
    named = Settings(home=tmp_path, embed_model="m", embed_base_url=openai_double.base_url, embed_api_key="k")
    assert isinstance(choose_embedder(plain, 256, is_own_space=True), OfflineEmbedder)
    assert choose_embedder(plain, 256, is_own_space=False) is None
    assert choose_embedder(plain, 384, is_own_space=True) is None
    assert choose_embedder(named, None, is_own_space=True) is None
    embedder = choose_embedder(named, 384, is_own_space=False)
    assert embedder is not None
    assert (embedder.name, embedder.dims) == ("m", 384)
    assert openai_double.n_requests == 0


def test_stray_key_embeds_nothing(monkeypatch, tmp_path):
    """OPENAI_API_KEY alone names no model."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert choose_embedder(Settings(home=tmp_path), 1536, is_own_space=False) is None


def test_shares_space(openai_double, caplog):
    """The same model is recognised, noise and missing vectors or not; another one is not, and it is said."""
    embedder = _make(openai_double)
    stored = embedder.embed(TEXTS) * 3
    noisy = stored + np.random.default_rng(1).normal(scale=0.05, size=stored.shape).astype(np.float32)
    noisy[1] = np.nan
    assert shares_space(embedder, TEXTS[:3], noisy[:3])
    assert shares_space(embedder, TEXTS[:2], np.zeros((2, 256), np.float32))
    assert not caplog.records
    assert not shares_space(embedder, TEXTS[:3], OfflineEmbedder().embed(TEXTS[:3]))
    assert "does not make the bank's vectors" in caplog.text


def test_shares_space_by_dimension(openai_double, caplog):
    """A model of another dimension does not fit: centroids, with a warning, instead of an error."""
    openai_double.dims = 384
    assert not shares_space(_make(openai_double), ["x"], np.ones((1, 256), np.float32))
    assert "384 dimensions; expected 256" in caplog.text


def naive_centroid(rows, weights):
    """One row after the other."""
    total = np.zeros(rows.shape[1])
    for row, weight in zip(rows.astype(float), weights, strict=True):
        length = np.sqrt((row**2).sum())
        if np.isfinite(row).all() and length > 0:
            total += weight * row / length
    length = np.sqrt((total**2).sum())
    return None if length < 1e-5 else total / length


@settings(max_examples=50)
@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 8), st.just(3)),
        elements=st.one_of(st.sampled_from([0.0, np.nan, np.inf]), st.integers(-9, 9).map(float)),
    ),
    st.data(),
)
def test_centroid(rows, data):
    """The same as a plain loop: missing rows ignored, length one, None where nothing is left."""
    weights = np.array(data.draw(st.lists(st.integers(1, 5), min_size=len(rows), max_size=len(rows))), dtype=float)
    expected, found = naive_centroid(rows, weights), centroid(rows, weights)
    if expected is None or found is None:
        assert found is None
        assert expected is None
        return
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_centroid_of_nothing():
    """No row, only NaN, only zeros, and rows that cancel out have no centroid."""
    for rows in ([[np.nan, 1.0]], [[0.0, 0.0]], [[1.0, 0.0], [-1.0, 0.0]]):
        assert centroid(np.array(rows, dtype=np.float32)) is None
    assert centroid(np.zeros((0, 2), dtype=np.float32)) is None
