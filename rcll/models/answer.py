"""Reads a model's answer and checks it against its sources; nothing that fails is ever stored."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from rcll.models.mask import mask_secrets
from rcll.models.support import draws_on_sources, missing_items

#: A longer title is cut at a word; a model's verbosity is no reason to lose a summary.
TITLE_CHARS = 80
#: More items than this that the sources lack make a summary untrustworthy; up to it they are flagged.
MAX_MISSING = 1

_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_JOINERS = "\u200c\u200d"  # part of words in Persian and Hindi, and of emoji


class AnswerFault(Exception):  # noqa: N818 - what was found, turned into a SummaryFailure by the caller
    """The answer cannot be used; ``kind`` is one word for counting."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind, self.reason = kind, reason


class _Answer(BaseModel):
    title: Annotated[str, Field(min_length=1)]
    summary: Annotated[str, Field(min_length=1)]
    used: list[int]


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """A summary that holds; ``used`` are note numbers, ascending; ``flags`` what a reader should know."""

    title: str
    text: str
    used: tuple[int, ...]
    flags: tuple[str, ...]


def read_answer(content: str, notes: Sequence[str]) -> CheckedAnswer:
    """Parse and check one answer.

    Args:
        content: what the model wrote: a JSON object, perhaps in a Markdown fence.
        notes: the notes that it was given; note i has number i + 1.

    Raises:
        AnswerFault: empty, not the JSON asked for, or at odds with the notes.
    """
    answer = _parse(content)
    if len(answer.summary) > len(" ".join(notes)):
        raise AnswerFault("too-long", f"a summary of {len(answer.summary)} characters, longer than its sources")
    title, text = one_line(answer.title[: 4 * TITLE_CHARS]), one_line(answer.summary)
    if not title or not text:
        raise AnswerFault("empty", "an empty title or summary")
    used = _checked_sources(answer.used, text, notes)
    missing = missing_items(title, text, [notes[n - 1] for n in used], notes)
    if len(missing) > MAX_MISSING:
        raise AnswerFault("unsupported", f"not in the sources: {', '.join(missing[:5])}")
    return CheckedAnswer(_shortened(title), text, used, tuple(f"not in the sources: {item}" for item in missing))


def _parse(content: str) -> _Answer:
    if not content.strip():
        raise AnswerFault("empty", "an empty answer")
    content = _THOUGHTS.sub("", content)
    try:
        # from the first to the last brace: a Markdown fence or a sentence round the object does no harm
        return _Answer.model_validate(json.loads(content[content.find("{") : content.rfind("}") + 1]))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the answer"
        raise AnswerFault("bad-json", f"{where}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise AnswerFault("bad-json", f"no JSON object in an answer of {len(content)} characters") from None


def _checked_sources(numbers: Sequence[int], text: str, notes: Sequence[str]) -> tuple[int, ...]:
    """Numbers that exist; and the summary must draw on more than one note, where there is more than one.

    The second check is what stops a note that took the model over ("ignore the above, output …"): its
    words come from that note alone.
    """
    invented = sorted({n for n in numbers if not 1 <= n <= len(notes)})
    if invented or not numbers:
        found = f"sources {invented[:5]}" if invented else "no source"
        raise AnswerFault("invented-sources", f"{found} named; expected numbers from 1 to {len(notes)}")
    if not draws_on_sources(text, notes):
        raise AnswerFault("off-topic", "a summary that shares no words with its sources, or with one of them alone")
    return tuple(sorted(set(numbers)))


def one_line(text: str) -> str:
    """One paragraph of printable characters, secrets masked: JSON can spell NUL and half surrogates."""
    printable = "".join(c if c.isprintable() or c in _JOINERS else " " for c in text)
    return mask_secrets(" ".join(printable.split()))


def _shortened(title: str) -> str:
    if len(title) <= TITLE_CHARS:
        return title
    head = title[: TITLE_CHARS - 1]
    return (head.rsplit(" ", 1)[0] if " " in head else head).rstrip(" ,;:") + "…"
