"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# A machine that is busy is no reason to fail.
settings.register_profile("house", deadline=None)
settings.load_profile("house")
