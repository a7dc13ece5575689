"""Writes plain data as YAML. The standard library has no YAML, and these files need little of it."""

import json


def dump(value):
    """Dictionaries, lists and strings as YAML. Strings of several lines or with quotes become blocks."""
    return "".join(line + "\n" for line in _lines(value))


def _lines(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _entry(f"{key}:", inner)
    else:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _entry(head, inner):
    if isinstance(inner, str) and ("\n" in inner or '"' in inner):
        yield f"{head} |-"
        yield from (f"  {line}" for line in inner.split("\n"))
    elif isinstance(inner, str):
        # A JSON string is a YAML string; nothing needs to be known about YAML's special words.
        yield f"{head} {json.dumps(inner, ensure_ascii=False)}"
    else:
        yield head
        yield from (f"  {line}" for line in _lines(inner))
