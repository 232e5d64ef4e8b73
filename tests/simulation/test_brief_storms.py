"""Many short schedules: a few things fail while a run goes on, and all comes right.

With those of the other worlds here a thousand in every run, and 25 times as many in the nightly
form. In several classes, so that processes share them: each draws cases of its own.
"""

from __future__ import annotations

from tests.simulation.test_stormy_world import Storm
from tests.support.effort import limit, schedules

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

TestFirst = limit(900)(FirstStorm.TestCase)
TestSecond = limit(900)(SecondStorm.TestCase)
TestThird = limit(900)(ThirdStorm.TestCase)
TestFourth = limit(900)(FourthStorm.TestCase)
for each in (TestFirst, TestSecond, TestThird, TestFourth):
    each.settings = schedules(COUNT, steps=STEPS)
del each  # or pytest takes it for one more test
