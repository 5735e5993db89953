"""What the key does: URL secrets, fingerprints, sealing. Pure, so no file is touched."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.errors import Corrupt
from appliance.keys import Key

KEY = Key("k", b"1" * 32, b"2" * 32)
OTHER = Key("o", b"3" * 32, b"4" * 32)


def test_a_url_secret_is_its_id_and_a_mac_and_opens_what_it_was_made_for():
    secret = KEY.url_secret("metadata", "server-1", 1)
    id, _, mac = secret.rpartition(".")
    assert id == "server-1"
    assert len(mac) == 32
    assert mac.isascii()
    assert mac == mac.lower()
    assert KEY.opens("metadata", secret, 1)


@pytest.mark.parametrize(
    "key, purpose, secret, rotation",
    [
        (KEY, "signal", KEY.url_secret("metadata", "s", 1), 1),
        (KEY, "metadata", KEY.url_secret("metadata", "s", 1), 2),
        (OTHER, "metadata", KEY.url_secret("metadata", "s", 1), 1),
        (KEY, "metadata", "t." + KEY.url_secret("metadata", "s", 1).partition(".")[2], 1),
        (KEY, "metadata", "s.", 1),
        (KEY, "metadata", "s", 1),
        (KEY, "metadata", "", 1),
        (KEY, "metadata", "s.\u00e9\u00e9", 1),
        (KEY, "metadata", KEY.url_secret("metadata", "s", 1).upper(), 1),
        (KEY, "metadata", KEY.url_secret("metadata", "s", 1) + "a", 1),
    ],
)
def test_a_url_secret_opens_nothing_else(key, purpose, secret, rotation):
    assert not key.opens(purpose, secret, rotation)


def test_purpose_id_and_rotation_cannot_be_shifted_into_each_other():
    assert KEY.url_secret("a|b", "c", 1).partition(".")[2] != KEY.url_secret("a", "b|c", 11).partition(".")[2]


def test_a_url_secret_with_a_dot_in_its_id_is_taken_apart_at_the_last_one():
    assert KEY.opens("signal", KEY.url_secret("signal", "a.b.c", 3), 3)


def test_a_url_secret_is_the_keyed_digest_that_is_written_down():
    """Fixed, since secrets that were handed out must go on opening after an upgrade."""
    import base64

    mac = base64.b32encode(hmac.digest(KEY.mac, b"metadata|s|1", hashlib.sha256)[:20]).decode().lower()
    assert KEY.url_secret("metadata", "s", 1) == f"s.{mac}"


def test_fingerprints_depend_on_the_key_and_on_where_a_part_ends():
    assert KEY.fingerprint(b"ab", b"c") != KEY.fingerprint(b"a", b"bc") != KEY.fingerprint(b"abc")
    assert KEY.fingerprint(b"a") != OTHER.fingerprint(b"a")
    assert KEY.fingerprint(b"a", b"b") == KEY.fingerprint(b"a", b"b")
    assert len(KEY.fingerprint()) == 32


@given(st.text())
def test_what_was_sealed_is_unsealed_and_is_ascii(text):
    sealed = KEY.sealed(text)
    assert sealed.isascii()
    assert KEY.unsealed(sealed) == text


def test_equal_texts_look_equal_when_sealed_so_that_an_equal_update_changes_nothing():
    assert KEY.sealed("a") == KEY.sealed("a") != KEY.sealed("b")


def test_a_sealed_text_shows_nothing_of_it():
    assert "password" not in KEY.sealed("password")


@pytest.mark.parametrize("n", [0, 5, -1])
def test_a_sealed_text_that_was_damaged_is_corrupt(n):
    import base64

    raw = bytearray(base64.b64decode(KEY.sealed("secret")))
    raw[n] ^= 1
    with pytest.raises(Corrupt):
        KEY.unsealed(base64.b64encode(raw).decode())


@pytest.mark.parametrize("text", ["", "AAAA", "not base64!", "\u00e9", KEY.sealed("x")[:-8]])
def test_what_was_never_sealed_is_corrupt(text):
    with pytest.raises(Corrupt):
        KEY.unsealed(text)


def test_another_key_cannot_unseal_and_says_what_to_do():
    with pytest.raises(Corrupt) as caught:
        OTHER.unsealed(KEY.sealed("x"))
    assert "key file" in caught.value.hint
