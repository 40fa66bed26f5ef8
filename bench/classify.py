"""How fast texts are labelled: ``python -m bench.classify [--texts N] [--rules 100,300,1000] [--quick]``.

All ways are measured in turn, several rounds in one run, by CPU time; the middle round counts. The naive loop is
timed on fewer texts. Labels and rules of the engine are asserted to be those of the loop.
"""

import argparse
import os
import resource
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl

from bench import classify_data as data
from bench import classify_ways as ways
from rcll.stages.classify import classify_units
from rcll.taxonomy import Rule, Taxonomy, load_taxonomy
from rcll.taxonomy.match import Program
from rcll.taxonomy.normalise import normalise_texts
from rcll.taxonomy.single import language_of_text, normalise_text

N_LOOP = {"loop": 1_000, "hyperscan": 20_000, "chain": 30_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=131_072)
    parser.add_argument("--rules", default="100,300,1000,shipped")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    n_threads, python = pl.thread_pool_size(), sys.version.split()[0]
    print(f"{args.texts:,} texts, {n_threads} threads, Polars {pl.__version__}, Python {python}")
    for wanted in args.rules.split(","):
        taxonomy = load_taxonomy() if wanted == "shipped" else Taxonomy(sum(data.rules(int(wanted)), ()))
        sides = tuple(taxonomy.rules_for("en", dimension) for dimension in ("room", "hall"))
        kinds = {
            "typical": data.typical(args.texts),
            "diverse": data.diverse(args.texts, sides),
            "tail": data.tail(args.texts),
        }
        for kind, texts in kinds.items():
            measure(f"{wanted} rules, {kind}", taxonomy, sides, texts, args.rounds)


def measure(title: str, taxonomy: Taxonomy, sides: tuple[tuple[Rule, ...], ...], texts: pl.Series, rounds: int) -> None:
    lines = normalise_texts(texts)
    n_rules = sum(len(side) for side in sides)
    print(f"\n## {title} ({n_rules} for English); {texts.str.len_bytes().mean():.0f} bytes a text")
    built = time.process_time()
    program = Program(sides)
    built = time.process_time() - built
    fns = {"loop": ways.loop(sides), "polars chain": ways.chain(sides), "engine": program.all_at_once}
    try:
        fns["hyperscan"] = ways.hyperscan(sides)
    except Exception as error:  # noqa: BLE001 - whatever the binding raises, the others are measured
        print(f"hyperscan left out: {str(error)[:100]}")
    fns["whole loop"] = lambda some: whole_loop(taxonomy, some)
    fns["classify_units"] = lambda some: label(taxonomy, some)
    spent: dict[str, list[float]] = {name: [] for name in fns}
    found: dict[str, object] = {}
    for _ in range(rounds):
        for name, fn in fns.items():
            some = (texts if name in {"whole loop", "classify_units"} else lines).head(
                N_LOOP.get(name.split()[-1], len(lines))
            )
            start = time.process_time()
            found[name] = fn(some)
            spent[name].append((time.process_time() - start) / len(some))
    check(sides, found)
    seconds = {name: statistics.median(times) for name, times in spent.items()}
    for name, second in seconds.items():
        base = seconds["whole loop"] if name in {"whole loop", "classify_units"} else seconds["loop"]
        print(
            f"{name:16s} {1 / second:12,.0f} texts per CPU second {second * 1e6:9.2f} us a text   x{base / second:7.1f}"
        )
    if pl.thread_pool_size() > 1:
        in_threads(taxonomy, texts)
    print(f"engine built in {built:.3f} s; peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def check(sides: tuple[tuple[Rule, ...], ...], found: dict[str, object]) -> None:
    """Assert that no way finds another rule (the chain: another label) than the loop."""
    expected = found["loop"]
    for name in ("engine", "hyperscan", "polars chain"):
        for rules, right, indices in zip(sides, expected, found.get(name, expected), strict=True):
            here = indices[: len(right)]
            if name == "polars chain":  # it finds labels
                labels = np.array([*(rule.label for rule in rules), None], object)
                assert (labels[right] == labels[here]).all(), name
            else:
                assert (right == here).all(), f"{name}: {(right != here).sum()} differences"
    whole, labels = found["whole loop"], found["classify_units"]
    assert whole == labels.select("room_rule", "hall_rule", "language").head(len(whole)).rows(), "whole loop differs"


def label(taxonomy: Taxonomy, texts: pl.Series) -> pl.DataFrame:
    ids = pl.int_range(len(texts), eager=True).cast(pl.String).alias("unit_id")
    return classify_units(pl.DataFrame([ids, texts]), taxonomy)


def whole_loop(taxonomy: Taxonomy, texts: pl.Series) -> list[tuple]:
    """Normalise, find the language and search the rules of it, one text after another."""
    searches: dict[str | None, tuple] = {}
    out = []
    for text in texts.to_list():
        line = normalise_text(text)
        language = language_of_text(line)
        language = language if language in taxonomy.languages or language is None else "other"
        if language not in searches:
            sides = tuple(taxonomy.rules_for(language, dimension) for dimension in ("room", "hall"))
            searches[language] = (sides, ways.loop(sides))
        sides, search = searches[language]
        indices = [int(found[0]) for found in search(pl.Series([line]))]
        out.append((*(None if i < 0 else rules[i].id for rules, i in zip(sides, indices, strict=True)), language))
    return out


def in_threads(taxonomy: Taxonomy, texts: pl.Series) -> None:
    start = time.perf_counter()
    halves = [texts[: len(texts) // 2], texts[len(texts) // 2 :]]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda half: label(taxonomy, half), halves))
    print(f"{'2 threads':16s} {len(texts) / (time.perf_counter() - start):12,.0f} texts per second of the clock")


if __name__ == "__main__":
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    main()
