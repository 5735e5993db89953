"""Who is asking."""

import pytest

from appliance.identity import ALIVE_MS, BOOTS_KEPT, DOUBT_MS, Instance, Known, Who, boots_after, recognise, same_instance

HERE, THERE = Instance("m1", "r1", "c1"), Instance("m2", "r2", "c2")
NOW = 1_000_000


def known(instance=HERE, state="s1", boot="b1", boots=("b0", "b1"), journal=10, alive=None, doubted=None):
    return Known(instance, state, boot, list(boots), journal, alive, doubted)


def who(instance=HERE, state="s1", boot="b1", journal=10):
    return Who(instance, state, boot, journal)


#   what is known                               who speaks                                    -> recognised as
TABLE = [
    (known(),                                   who(),                                           "known"),
    (known(),                                   who(journal=11),                                 "known"),
    (known(state=None),                         who(),                                           "first"),
    (known(Instance(), None, None, (), None),   who(),                                           "first"),
    (known(),                                   who(boot="b2"),                                  "rebooted"),
    (known(),                                   who(boot="b2", journal=99),                      "rebooted"),
    (known(),                                   who(boot="b0"),                                  "clone"),
    (known(),                                   who(boot="b0", journal=1),                       "clone"),
    (known(),                                   who(journal=9),                                  "behind"),
    (known(doubted=NOW - DOUBT_MS + 1),         who(journal=9),                                  "behind"),
    (known(doubted=NOW - DOUBT_MS),             who(journal=9),                                  "reverted"),
    (known(doubted=NOW - DOUBT_MS),             who(journal=10),                                 "known"),
    (known(),                                   who(boot="b2", journal=9),                       "reverted"),
    (known(journal=None),                       who(journal=0),                                  "known"),
    (known(),                                   who(state="s2"),                                 "state-lost"),
    (known(),                                   who(state="s2", journal=1, boot="b0"),           "state-lost"),
    (known(alive=NOW - ALIVE_MS),               who(state="s2"),                                 "state-lost"),
    (known(alive=NOW - ALIVE_MS + 1),           who(state="s2"),                                 "rival"),
    (known(alive=NOW + 30 * 86_400_000),        who(state="s2"),                                 "state-lost"),  # the clock was set back
    (known(doubted=NOW + 30 * 86_400_000),      who(journal=9),                                  "reverted"),
    (known(alive=NOW),                          who(),                                           "known"),
    (known(),                                   who(THERE),                                      "other-instance"),
    (known(),                                   who(THERE, "s2"),                                "other-instance"),
    (known(alive=NOW),                          who(THERE, "s2"),                                "other-instance"),
    (known(),                                   who(Instance("m2", "r1", "c1")),                 "other-instance"),
    (known(),                                   who(Instance("m1", "r1", "c9")),                 "other-instance"),
    (known(),                                   who(Instance()),                                 "known"),
    (known(),                                   who(Instance("m1"), "s2"),                       "other-instance"),
    (known(),                                   who(Instance("m1", "r1"), "s2"),                 "state-lost"),
    (known(Instance("m1")),                     who(Instance("m1"), "s2"),                       "other-instance"),
    (known(Instance("m1")),                     who(Instance("m1")),                             "known"),
]  # fmt: skip


@pytest.mark.parametrize("before, now, expected", TABLE)
def test_how_one_who_speaks_is_recognised(before, now, expected):
    assert recognise(before, now, NOW) == expected


def test_two_are_one_machine_when_no_part_that_both_know_differs():
    assert same_instance(Instance(None, "r1", None), HERE, same_state=False)
    assert not same_instance(Instance("m1", "r1", "c2"), HERE, same_state=True)


def test_the_newest_boots_are_kept():
    boots = []
    for n in range(BOOTS_KEPT + 5):
        boots = boots_after(boots, f"b{n}")
    assert (len(boots), boots[-1]) == (BOOTS_KEPT, f"b{BOOTS_KEPT + 4}")
    assert boots_after(["b1", "b2"], "b1") == ["b2", "b1"]
