"""Trade three symbols at two loopback exchanges for some minutes, with cuts and restarts, then reconcile.

The exchanges have the layouts of Binance and Kraken, lose answers and messages, and refuse requests. The router trades
there as it would for money, with keys. Exit status 1 if anything differs at the end.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from exchange_trading import ExchangeTrading, TradingResult, trading
from loopback_exchanges import ExchangeFaults
from loopback_only import loopback_only

FAULTS = ExchangeFaults(unanswered=0.03, limited=0.03, lost=0.005, cut=0.0005)
PLACES = "BINANCE", "KRAKEN"


def play(one: ExchangeTrading, seconds: float) -> TradingResult:
    """Send two orders a second; cut all websockets four times, and kill and restart the router three times."""
    one.start()
    one.wait(one.ready, 60, "the start")
    began, events = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        one.send()
        if passed * 8 / seconds > events + 1:
            events += 1
            if events % 2:
                one.result.cuts += 1
                for server in one.servers.values():
                    server.cut()
                print(f"{passed:4.0f} s: all websockets are cut", flush=True)
            else:
                one.kill()
                one.start()
                one.wait(one.ready, 120, "the restart")
                print(f"{passed:4.0f} s: killed, and ready again after {one.result.parents} orders", flush=True)
        time.sleep(0.5 * one.random.random() * 2 if seconds > 60 else 0.05)
    return one.finish()


def main(words: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="duration (default: %(default)s)")
    seconds = parser.parse_args(words).seconds
    logger = logging.getLogger("riskroute.live")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # every gap and lost answer is a warning
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            loopback_only(),
            trading(Path(folder), *PLACES, faults=FAULTS) as one,
        ):
            result = play(one, seconds)
            held = [(place, server.exchange) for place, server in one.servers.items()]
    finally:
        logger.setLevel(level)
    print(f"\norders of clients       {result.parents:>7,}")
    print(f"orders at the exchanges {result.orders:>7,}")
    print(f"trades                  {result.trades:>7,}")
    print(f"restarts, cuts          {result.restarts:>7}, {result.cuts}")
    for name, count in result.faults.items():
        print(f"{name:<24}{count:>7,}")
    for place, exchange in held:
        for name in exchange.markets:
            print(f"{place + ' ' + name:<24}{exchange.position(name):>+.5f}, as in the log")
    print(f"sent twice              {result.twice:>7}")
    print(f"open at the exchanges   {result.open_orders:>7}")
    for wrong in (*result.wrong_positions, *result.differences, *([result.halted] if result.halted else [])):
        print(f"different: {wrong}")
    print("reconciliation: clean" if result.clean else "reconciliation: not clean")
    return 0 if result.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
