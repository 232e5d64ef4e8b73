"""Checks that every invariant of the records holds, by looking at everything: for tests and
`--validate`. Decides and changes nothing; a broken invariant raises with the entity's history.
"""
