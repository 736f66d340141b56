"""Define an environment with rare outages: most rewards are slightly above their mean, a few far below.

An environment is a problem plus its noise. The example runs the shared conformance checks on it and shows how policies
that assume Gaussian rewards perform under outages. Means and variances are those of the problem.
"""

import math
from typing import Any

import numpy as np

import riskroute as rr
from riskroute.simulation.environments import EnvironmentNoise


class OutageNoise(EnvironmentNoise):
    """Standardised two-point noise: mean 0, variance 1, with rare large losses."""

    def __init__(self, rng: np.random.Generator, chance: float) -> None:
        super().__init__(rng)
        self.good, self.bad, self.chance = math.sqrt(chance / (1 - chance)), -math.sqrt((1 - chance) / chance), chance

    def draw(self, rounds: int) -> np.ndarray:
        return np.where(self.rng.random(rounds) < self.chance, self.bad, self.good)


class Outages(rr.Environment):
    """Environment in which a venue fails with probability ``chance`` in every round."""

    gaussian = False  # rewards are drawn one by one, not as tallies of normal draws

    def __init__(self, problem: rr.Problem, chance: float) -> None:
        super().__init__(problem)
        self.chance = chance

    def describe(self) -> dict[str, Any]:
        """Return the identity of the environment, which also selects its random stream."""
        return super().describe() | {"chance": self.chance}

    def noise(self, rng: np.random.Generator) -> OutageNoise:
        return OutageNoise(rng, self.chance)


if __name__ == "__main__":
    problem = rr.random_routing_problem(shares=6, slots=4, seed=1)
    rr.check_environment(Outages(problem, chance=0.1), runs=1000)
    print("the environment passes the conformance checks")
    for chance in (0.5, 0.02):
        environment = Outages(problem, chance)
        worst = environment.noise(np.random.default_rng(0)).bad
        print(f"\noutages in {chance:.0%} of the orders, each {-worst:.1f} standard deviations below the mean")
        print(rr.simulate(environment, ["adaptive", "thompson", "rise", "uniform"], horizon=5_000, runs=5))
