"""URL secrets and sealed inputs."""

import pytest

from appliance.errors import Corrupt
from appliance.keys import Key

KEY, OTHER = Key("k", b"1" * 32, b"2" * 32), Key("k", b"3" * 32, b"4" * 32)


def test_a_url_secret_opens_what_it_was_made_for_and_nothing_else():
    secret = KEY.url_secret("signal", "run-1", 1)
    assert KEY.opens("signal", secret, 1)
    for purpose, text, rotation, key in [
        ("metadata", secret, 1, KEY),
        ("signal", secret, 2, KEY),
        ("signal", secret, 1, OTHER),
        ("signal", secret.replace("run-1", "run-2"), 1, KEY),
        ("signal", secret[:-1], 1, KEY),
        ("signal", secret + "é", 1, KEY),
        ("signal", "", 1, KEY),
        ("signal", ".", 1, KEY),
    ]:
        assert not key.opens(purpose, text, rotation)


def test_what_is_sealed_is_opened_by_the_same_key_only():
    sealed = KEY.sealed("s3cret é")
    assert "s3cret" not in sealed
    assert KEY.unsealed(sealed) == "s3cret é"
    assert KEY.sealed("s3cret é") == sealed != KEY.sealed("s3cret")
    for key, text in ((OTHER, sealed), (KEY, sealed[:-4]), (KEY, "AAAA" + sealed[4:]), (KEY, ""), (KEY, "é%")):
        with pytest.raises(Corrupt):
            key.unsealed(text)
