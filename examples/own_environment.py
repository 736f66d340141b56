"""An environment of your own: most orders go a little better than expected, and now and then one goes very wrong.

You learn that an environment is the problem plus its noise, how the shared checks tell whether yours is sound, and how
policies that believe in Gaussian rewards fare where outages happen. Means and variances are those of the problem.
"""

import math
from typing import Any

import numpy as np

import riskroute as rr
from riskroute.simulation.environments import Noise


class OutageNoise(Noise):
    """Standardised: mean 0 and variance 1, but all of the bad luck falls into a few rounds."""

    def __init__(self, rng: np.random.Generator, chance: float) -> None:
        super().__init__(rng)
        self.good, self.bad, self.chance = math.sqrt(chance / (1 - chance)), -math.sqrt((1 - chance) / chance), chance

    def draw(self, rounds: int) -> np.ndarray:
        return np.where(self.rng.random(rounds) < self.chance, self.bad, self.good)


class Outages(rr.Environment):
    """In a share ``chance`` of the rounds a venue fails while the order is there."""

    gaussian = False  # rewards are drawn one by one, not as tallies of normal draws

    def __init__(self, problem: rr.Problem, chance: float) -> None:
        super().__init__(problem)
        self.chance = chance

    def describe(self) -> dict[str, Any]:
        """What is told here makes this environment different from others, and gives it random numbers of its own."""
        return super().describe() | {"chance": self.chance}

    def noise(self, rng: np.random.Generator) -> OutageNoise:
        return OutageNoise(rng, self.chance)


if __name__ == "__main__":
    problem = rr.random_routing_problem(shares=6, slots=4, seed=1)
    rr.check_environment(Outages(problem, chance=0.1), runs=1000)
    print("the environment passes the checks that every environment must pass")
    for chance in (0.5, 0.02):
        environment = Outages(problem, chance)
        worst = environment.noise(np.random.default_rng(0)).bad
        print(f"\noutages in {chance:.0%} of the orders, each {-worst:.1f} standard deviations below the mean")
        print(rr.simulate(environment, ["adaptive", "thompson", "rise", "uniform"], horizon=5_000, runs=5))
