"""Which files of tests are begun first."""

from __future__ import annotations

LONGEST = (
    "test_engines.py",
    "test_benchmarks.py",
    "test_readme.py",
    "test_docs.py",
    "test_policies.py",
    "test_machines.py",
    "test_public_calls.py",
    "test_market_cli.py",
    "test_cli.py",
    "test_examples.py",
    "test_split_study.py",
    "test_many_slots.py",
    "test_strong_signals.py",
    "test_contextual.py",
    "test_changing.py",
    "test_reproduce.py",
)
"""Files whose tests take longest, the longest first: none is left to one worker at the end while the others wait."""
