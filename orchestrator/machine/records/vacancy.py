"""A partition that lost its device while runs need it, until people were told where it went."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Vacancy:
    """`why`: whose fault, in words for people. `number`: of the partition, counted from 1.
    `device`: who had it. `told`: that it waits was said."""

    why: str
    number: int
    device: str
    told: bool = False
