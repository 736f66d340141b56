"""Define venue models by hand, find the best split, and simulate the cost of learning that split.

Shows how fees enter a venue model, how the best split changes with the risk tolerance, and how to simulate policies on
your own problem. Needs no market data.
"""

import numpy as np

import riskroute as rr

SHARES, LOT = 1000, 100

# Dollars per share: the cost of crossing plus the taker fee, or the gain of a passive fill plus the maker rebate. The
# second number of a pair is per squared share: larger orders walk the book, or remain unfilled.
VENUES = [
    rr.VenueModel("deep", mean=(-0.0100 - 0.0030, -0.000002), variance=(0.0, 0.00010)),
    rr.VenueModel("inverted", mean=(-0.0130 + 0.0018, -0.000020), variance=(0.0, 0.00006)),
    rr.VenueModel("waiting", mean=(+0.0060 + 0.0020, -0.000024), variance=(0.02, 0.00030), kind="limit"),
    rr.VenueModel("dark", mean=(-0.0010 - 0.0010, -0.000004), variance=(0.03, 0.00050), kind="dark"),
]
CAPS = [1000, 1000, 500, 600]  # maximum shares per venue


def problem_at(risk_tolerance: float) -> rr.Problem:
    """Return the routing problem at a risk tolerance."""
    return rr.venue_problem(VENUES, SHARES, lot=LOT, caps=CAPS, risk_tolerance=risk_tolerance)


if __name__ == "__main__":
    print(f"best split of {SHARES:,} shares over {', '.join(venue.name for venue in VENUES)}")
    for tolerance in (0, 3, 10, 30, 100):
        problem = problem_at(tolerance)
        best = np.array([problem.best])
        mean, deviation = problem.means(best)[0], problem.variances(best)[0] ** 0.5
        print(f"  risk tolerance {tolerance:3}: {problem.best}, earns {mean:.2f} +- {deviation:.2f} dollars")

    result = rr.simulate(problem_at(30), ["adaptive", "rise", "uniform"], horizon=20_000, runs=4)
    print(f"\nlearning the best split from 20,000 orders at risk tolerance 30; it is {result.best}")
    print(result)
