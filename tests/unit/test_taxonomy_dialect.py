"""What people write as patterns, and what the two regex engines get."""

import polars as pl
import pytest

from rcll.taxonomy.dialect import PatternError, python, rust, translate, translate_words

READS = [
    # pattern, text that it must match, text that it must not
    (r"\boauth ?2?\b", "\nuse oauth2 now\n", "\nnooauth2\n"),
    (r"<S>never \w+", "\nall.\nnever stop\n", "\nhe never stops\n"),
    (r"<C>do not", "\nrule: do not go\n", "\nwe do not go\n"),
    (r"<P>do not", "\nif so, do not go\n", "\nwe do not go\n"),
    (r"<NUM>stop", "\nx\x03\nstop it\n", "\nstop it\n"),
    (r"<ITEM>stop", "\nx\x04\nstop it\n", "\nstop it\n"),
    (r"do not", "\ndo\x02not go\n", "\ndonot\n"),
    (r"do<CAPS>not", "\ndo\x02not go\n", "\ndo not go\n"),
    (r"done<E>", "\nwork done.\nmore\n", "\ndone with it\n"),
    (r"at <URL>", "\nlook at \x05 now\n", "\nlook at it\n"),
    (r"a.b", "\na-b\n", "\na\nb\n"),
    (r"a(?s:.)b", "\na\nb\n", "\nab\n"),
    (r"v\d+\.\d", "\nv12.3\n", "\nv12x3\n"),
    (r"[ \w]x[^ \d]", "\n xy\n", "\n x1\n"),
    (r"c\+\+|\(x\)", "\nin c++\n", "\nin c\n"),
    (r"d[ée]cision", "\nla décision\n", "\nla dcision\n"),
    (r"\S\s\S", "\na b\n", "\nab\n"),
]


@pytest.mark.parametrize(("pattern", "hit", "miss"), READS)
def test_both_engines_read_a_pattern_alike(pattern, hit, miss):
    """Each construct of the dialect matches and misses the same texts in Rust and in Python."""
    common = translate(pattern)
    in_rust = pl.Series([hit, miss]).str.contains(rust(common)).to_list()
    in_python = [bool(python(common).search(text)) for text in (hit, miss)]
    assert in_rust == in_python == [True, False]


REFUSED = [
    ("", "empty"),
    ("^a", "anchor"),
    ("a$", "anchor"),
    (r"\Aa", "not in the dialect"),
    (r"a\z", "not in the dialect"),
    ("(?=a)b", "look-around"),
    ("(?<!a)b", "look-around"),
    ("(?P<n>a)", "not in the dialect"),
    ("(?i)a", "not in the dialect"),
    (r"(a)\1", "not in the dialect"),
    (r"\pL", "not in the dialect"),
    ("Token", "upper-case"),
    ("É", "upper-case"),
    ("[A-Z]", "upper-case"),
    ("a*+", "more than one quantifier"),
    ("a{2}{3}", "more than one quantifier"),
    (".*a", "start or end"),
    ("a.+?", "start or end"),
    ("a{", "without its counterpart"),
    ("a{,3}", "without its counterpart"),
    ("[a&&b]", "set operations"),
    ("[[:alpha:]]", "set operations"),
    ("[ -~]", "range"),
    (r"[\W]", r"expected \w \d \s \n"),
    ("<NOPE>", "unknown token <NOPE>"),
]


@pytest.mark.parametrize(("pattern", "reason"), REFUSED)
def test_what_the_engines_read_differently_is_refused(pattern, reason):
    """Everything outside the dialect is refused in words that tell what to do."""
    with pytest.raises(PatternError) as caught:
        translate(pattern)
    assert reason in str(caught.value)


def test_word_lists_name_each_other_in_any_order():
    """A word list may stand in another one, before or behind it."""
    words = translate_words({"ALL": "<VERB>|see", "VERB": "run|do it"})
    assert words["ALL"] == r"(?:run|do[ \x02]it)|see"
    assert translate("<S><ALL> now", words).endswith(r"(?:(?:run|do[ \x02]it)|see)[ \x02]now")


def test_word_lists_in_a_circle_are_refused():
    """A list that contains itself is refused by name."""
    with pytest.raises(PatternError, match=r"words\.A contains itself"):
        translate_words({"A": "<B>", "B": "x<A>"})
