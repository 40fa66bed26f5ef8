"""Which rules are dear: ``python -m bench.classify_costs [--texts N] [--taxonomy T.toml] [--top N]``.

For each rule the CPU time a text, the share of texts that it is tried on, and the share of those that it takes.
"""

import argparse
import time

import numpy as np
import polars as pl

from bench import classify_data as data
from rcll.taxonomy import load_taxonomy
from rcll.taxonomy.candidates import Candidates, LiteralIndex
from rcll.taxonomy.match import matches
from rcll.taxonomy.normalise import normalise_texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=50_000)
    parser.add_argument("--taxonomy")
    parser.add_argument("--language", default="en")
    parser.add_argument("--top", type=int, default=30)
    args = parser.parse_args()
    taxonomy = load_taxonomy(args.taxonomy)
    sides = [taxonomy.rules_for(args.language, dimension) for dimension in ("room", "hall", "layer")]
    lines = normalise_texts(data.diverse(args.texts, tuple(sides)))
    index = LiteralIndex([rule.pattern for side in sides for rule in side])
    start = time.process_time()
    candidates = Candidates(index, lines)
    filtered = time.process_time() - start
    rows: list[tuple[float, str, float, float, bool]] = []
    number = 0
    for side in sides:
        is_open = np.ones(len(lines), np.bool_)
        for rule in side:
            start = time.process_time()
            tried, pattern = candidates.of(number, is_open, rule.times)
            hit = matches(rule, lines[pl.Series(tried)], pattern).to_numpy()
            is_common = index.families[index.family_of[number]].is_common
            rows.append((time.process_time() - start, rule.id, len(tried), int(hit.sum()), is_common))
            is_open[tried[hit]] = False
            number += 1
    total = sum(row[0] for row in rows)
    print(f"{number} rules, {len(index.literals)} literals, {sum(row[4] for row in rows)} rules without a rare one")
    print(f"literals {filtered / len(lines) * 1e6:.2f} us a text, rules {total / len(lines) * 1e6:.2f} us a text")
    for seconds, name, n_tried, n_hits, everywhere in sorted(rows, reverse=True)[: args.top]:
        cost, share, taken = seconds / len(lines) * 1e6, n_tried / len(lines), n_hits / max(1, n_tried)
        note = "  (no rare literal)" if everywhere else ""
        print(f"{cost:7.3f} us  tried on {share:6.1%}, takes {taken:6.1%}  {name}{note}")


if __name__ == "__main__":
    main()
