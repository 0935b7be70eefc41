"""Asserts of the machine's ground are explained like those of tests."""

import pytest

pytest.register_assert_rewrite("tests.property.machine")
