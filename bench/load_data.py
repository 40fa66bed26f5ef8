"""Databases for bench/load: Hindsight's own schema and index set, filled as its retain fills it.

Texts are words of a made-up vocabulary with the frequencies of a natural one; about eight tuples fit a page
at 384 dimensions, as in the banks that were measured.
"""

import uuid
from dataclasses import dataclass

import numpy as np
import psycopg

BANKS = {"alpha": 0.7, "beta": 0.3}
FACT_TYPES = {"world": 0.5, "experience": 0.3, "observation": 0.2}
#: Suffixes that Hindsight gives the vector index of each bank and fact type.
_SUFFIXES = {"world": "worl", "experience": "expr", "observation": "obsv"}
_TOPICS, _WORDS = 400, 20_000

_STAGE = """
CREATE UNLOGGED TABLE staged_texts (
    n int, id uuid, bank_id text, fact_type text, document_id text, chunk_id text, tags varchar[], context text,
    text text);
CREATE UNLOGGED TABLE staged_vectors (n int, embedding vector);
"""
_INSERT = """
INSERT INTO memory_units (id, bank_id, document_id, chunk_id, text, embedding, context, event_date, occurred_start,
                          occurred_end, mentioned_at, fact_type, metadata, tags, search_vector)
SELECT t.id, t.bank_id, t.document_id, t.chunk_id, t.text, v.embedding, t.context,
       '2026-01-01'::timestamptz + t.n * interval '37 s', '2026-01-01'::timestamptz + t.n * interval '31 s',
       '2026-01-01'::timestamptz + t.n * interval '31 s', '2026-01-01'::timestamptz + t.n * interval '37 s',
       t.fact_type, jsonb_build_object('source', 'chat'), t.tags,
       to_tsvector('english', t.text || ' ' || coalesce(t.context, ''))
FROM staged_texts t JOIN staged_vectors v USING (n)
ORDER BY t.n;
DROP TABLE staged_texts, staged_vectors;
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How many units of how many dimensions."""

    n_units: int
    dims: int

    @property
    def name(self) -> str:
        """Name of the database that holds them."""
        return f"bench_{self.n_units}_{self.dims}"


def build(url: str, size: Size, *, seed: int = 7) -> None:
    """Make Hindsight's tables in an empty database, fill them and build the vector index of each bank and fact type."""
    from hindsight_api.migrations import ensure_embedding_dimension, run_migrations

    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION IF NOT EXISTS vector; CREATE EXTENSION IF NOT EXISTS pg_trgm")
        conn.execute("CREATE EXTENSION IF NOT EXISTS btree_gin")
    run_migrations(url)
    if size.dims != 384:
        ensure_embedding_dimension(url, size.dims)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SET maintenance_work_mem = '1GB'; SET client_min_messages = warning")
        conn.execute(_STAGE)
        ids = _copy_texts(conn, size.n_units, seed)
        _copy_vectors(conn, size, seed)
        _insert(conn)
        _build_vector_indexes(conn)
        conn.execute("VACUUM (ANALYZE) memory_units")
        assert conn.execute("SELECT count(*) FROM memory_units").fetchone() == (len(ids),)


def _copy_texts(conn: psycopg.Connection, n_units: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    vocabulary = _vocabulary(rng)
    frequency = 1 / np.arange(1, _WORDS + 1) ** 0.9
    lengths = np.clip(rng.normal(24, 9, n_units), 5, 60).astype(int)
    words = iter(rng.choice(_WORDS, lengths.sum(), p=frequency / frequency.sum()))
    banks = rng.choice(list(BANKS), n_units, p=list(BANKS.values()))
    fact_types = rng.choice(list(FACT_TYPES), n_units, p=list(FACT_TYPES.values()))
    ids: list[str] = [str(uuid.UUID(bytes=rng.bytes(16), version=4)) for _ in range(n_units)]
    conn.execute("INSERT INTO banks (bank_id, name) SELECT b, b FROM unnest(%s::text[]) b", [list(BANKS)])
    with conn.cursor() as cursor, cursor.copy("COPY staged_texts FROM STDIN") as copy:
        for n in range(n_units):
            bank, fact_type = str(banks[n]), str(fact_types[n])
            text = " ".join(vocabulary[next(words)] for _ in range(lengths[n]))
            is_fact = fact_type != "observation"
            document = f"doc-{n // 20:08d}" if is_fact else None
            chunk = f"{bank}_{document}_{n % 7}" if is_fact else None
            tags = f"{{user:u{n % 50}}}" if n % 5 < 3 else "{}"
            context = "conversation between user and assistant" if n % 2 else None
            copy.write_row((n, ids[n], bank, fact_type, document, chunk, tags, context, text))
    conn.execute(
        "INSERT INTO documents (id, bank_id, original_text, content_hash)"
        " SELECT DISTINCT document_id, bank_id, '', document_id FROM staged_texts WHERE document_id IS NOT NULL"
    )
    conn.execute(
        "INSERT INTO chunks (chunk_id, document_id, bank_id, chunk_index, chunk_text)"
        " SELECT DISTINCT ON (chunk_id) chunk_id, document_id, bank_id, 0, '' FROM staged_texts"
        " WHERE chunk_id IS NOT NULL"
    )
    return ids


def _vocabulary(rng: np.random.Generator) -> list[str]:
    consonants, vowels, endings = "bcdfghjklmnprstvw", "aeiou", ("", "s", "ed", "ing", "er")
    syllables = [c + v for c in consonants for v in vowels]
    return ["".join(rng.choice(syllables, rng.integers(1, 5))) + str(rng.choice(endings)) for _ in range(_WORDS)]


def _copy_vectors(conn: psycopg.Connection, size: Size, seed: int) -> None:
    rng = np.random.default_rng(seed + 1)
    topics = _draw_topics(rng, size.dims)
    record = np.dtype(
        [
            *(("fields", ">i2"), ("n_bytes", ">i4"), ("n", ">i4"), ("vector_bytes", ">i4")),
            *(("dims", ">i2"), ("unused", ">i2"), ("vector", ">f4", (size.dims,))),
        ]
    )
    with conn.cursor() as cursor, cursor.copy("COPY staged_vectors FROM STDIN (FORMAT binary)") as copy:
        copy.write(b"PGCOPY\n\xff\r\n\x00" + bytes(8))
        for start in range(0, size.n_units, 5_000):
            n = np.arange(start, min(start + 5_000, size.n_units))
            noise = rng.standard_normal((len(n), size.dims)).astype(np.float32) * (1.1 / np.sqrt(size.dims))
            vectors = topics[rng.integers(0, _TOPICS, len(n))] + noise
            rows = np.zeros(len(n), dtype=record)
            rows["fields"], rows["n_bytes"], rows["n"] = 2, 4, n
            rows["vector_bytes"], rows["dims"] = 4 + 4 * size.dims, size.dims
            rows["vector"] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            copy.write(rows.tobytes())
        copy.write(b"\xff\xff")


def topics_of(dims: int, *, seed: int = 7) -> np.ndarray:
    """The directions (n_topics, n_dims), of length 1, round which the vectors of :func:`build` are drawn."""
    return _draw_topics(np.random.default_rng(seed + 1), dims)


def _draw_topics(rng: np.random.Generator, dims: int) -> np.ndarray:
    topics = rng.standard_normal((_TOPICS, dims)).astype(np.float32)
    return topics / np.linalg.norm(topics, axis=1, keepdims=True)


def _insert(conn: psycopg.Connection) -> None:
    """Fill the table without its indexes, then build them: the pages are as dense as after plain inserts."""
    indexes = conn.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'memory_units'"
        " AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conname = indexname)"
    ).fetchall()
    for name, _ in indexes:
        conn.execute(f'DROP INDEX "{name}"')
    conn.execute(_INSERT)
    for _, definition in indexes:
        conn.execute(definition)


def _build_vector_indexes(conn: psycopg.Connection) -> None:
    for bank, internal_id in conn.execute("SELECT bank_id, internal_id::text FROM banks").fetchall():
        for fact_type, suffix in _SUFFIXES.items():
            conn.execute(
                f"CREATE INDEX idx_mu_emb_{suffix}_{internal_id.replace('-', '')[:16]} ON memory_units USING hnsw"
                f" (embedding vector_cosine_ops) WHERE fact_type = '{fact_type}' AND bank_id = '{bank}'"
            )
