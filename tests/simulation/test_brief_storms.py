"""Many short schedules: a few things fail while a run goes on, and all comes right.

With those of the other worlds here a thousand in every run, and 25 times as many in the nightly
form. In several classes, so that processes share them: each draws cases of its own.
"""

from __future__ import annotations

import pytest

from tests.simulation.test_stormy_world import Storm
from tests.support.effort import schedules

COUNT, STEPS = 220, 6


class FirstStorm(Storm):
    pass


class SecondStorm(Storm):
    pass


class ThirdStorm(Storm):
    pass


class FourthStorm(Storm):
    pass


for storm in (FirstStorm, SecondStorm, ThirdStorm, FourthStorm):
    storm.VALIDATE_EVERY = 5  # events; the long storms look after each

TestFirst = pytest.mark.timeout(900)(FirstStorm.TestCase)
TestSecond = pytest.mark.timeout(900)(SecondStorm.TestCase)
TestThird = pytest.mark.timeout(900)(ThirdStorm.TestCase)
TestFourth = pytest.mark.timeout(900)(FourthStorm.TestCase)
for each in (TestFirst, TestSecond, TestThird, TestFourth):
    each.settings = schedules(COUNT, steps=STEPS)
