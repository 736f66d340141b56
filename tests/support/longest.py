"""Which files of tests are begun first."""

from __future__ import annotations

LONGEST = (
    "test_benchmarks.py",
    "test_backends.py",
    "test_docs.py",
    "test_split_study.py",
    "test_service_crashes.py",
    "test_simulated_service.py",
    "test_readme.py",
    "test_exact_numbers.py",
    "test_public_calls.py",
    "test_many_slots.py",
    "test_random_markets.py",
    "test_policies.py",
    "test_fuzz_market.py",
    "test_market_cli.py",
    "test_machines.py",
    "test_contextual.py",
    "test_dashboard.py",
    "test_adaptive_compiled.py",
    "test_service_requests.py",
    "test_service_server.py",
    "test_ccxt_gateway.py",
    "test_ccxt_trading.py",
    "test_ccxt_quotes.py",
    "test_refit_faults.py",
    "test_certificate.py",
    "test_reproduce.py",
    "test_cli.py",
    "test_wheel.py",
    "test_no_look_ahead.py",
)
"""Files whose tests take longest, the longest first: none is left to one worker at the end while the others wait."""
