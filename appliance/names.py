"""Which names are allowed. Names end in URLs, environments, terminals and file names, so each kind has its alphabet."""

import re

from appliance.errors import Invalid

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:=-]{0,62}\Z")
_WORD = re.compile(r"[A-Za-z0-9_:-]{1,255}\Z")
_INPUT = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,254}\Z")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")


def check_name(kind: str, name: str) -> str:
    """Return `name`, a plan's, server's, deployment's or token's. Raises Invalid."""
    if not _NAME.match(name):
        raise Invalid(
            f"{kind} name {_shown(name)} is not allowed",
            hint="use letters, digits, '.', '_' and '-', begin with a letter or digit, at most 255 characters",
        )
    return name


def check_label(label: str) -> str:
    """Return `label`. Raises Invalid."""
    if not _LABEL.match(label):
        raise Invalid(
            f"label {_shown(label)} is not allowed",
            hint="use letters, digits, '.', '_', ':', '=' and '-', begin with a letter or digit, at most 63 characters",
        )
    return label


def check_word(kind: str, word: str) -> str:
    """Return `word`, a group or an output name: they become file names on machines. Raises Invalid."""
    if not _WORD.match(word):
        raise Invalid(f"{kind} name {_shown(word)} is not allowed", hint="use letters, digits, '_', ':' and '-'")
    return word


def check_input(name: str) -> str:
    """Return `name`, an input's: it becomes an environment variable. Raises Invalid."""
    if not _INPUT.match(name):
        raise Invalid(f"input name {_shown(name)} is not allowed", hint="use letters, digits and '_', begin with a letter or '_'")
    return name


def is_uuid(text: str) -> bool:
    """Whether `text` is a lower-case UUID with dashes."""
    return bool(_UUID.match(text))


def check_uuid(kind: str, text: str) -> str:
    """Return `text`, an id minted by a client. Raises Invalid."""
    if not is_uuid(text):
        raise Invalid(f"{kind} id {_shown(text)} is not a lower-case UUID")
    return text


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
