"""What the keys of configuration files mean: by key, the unit (empty if there is none) and a sentence."""

from __future__ import annotations

Meanings = dict[str, tuple[str, str]]

STUDY: Meanings = {
    "market": ("", "A synthetic market, `paper`, `comparable` or `dark`; or a folder of `riskroute market import`."),
    "symbols": ("", "Symbols; of a synthetic market its own ones, the first by default; of a folder all by default."),
    "shares": ("shares", "Sizes of orders; the study answers for each of them."),
    "side": ("", "`buy`, `sell`, or `both` in turn."),
    "lot": ("shares", "Child orders are multiples of this."),
    "horizons": ("seconds", "Time that an order has, 0 is at once; the study answers for each of them."),
    "kappa": ("1 / basis point", "Basis points charged for a squared basis point of unforeseen cost."),
    "days": ("", "Days to play; 10 synthetic ones, or all that a folder has, if left out."),
    "train": ("", "Days at the beginning on which routers learn and one is chosen; half of them if left out."),
    "routers": (
        "",
        "Routers to compare with the simple rules, `NAME` or `NAME:KEY=VALUE`; see [The routers](routers.md).",
    ),
    "orders": ("", "Orders a day."),
    "hours": (
        "time of the recordings' zone",
        "When orders come and end, such as `10:30-11:30`; a synthetic day, of New York, then has these hours only. By "
        "default 09:35-15:55 on days of New York, and all of a day elsewhere.",
    ),
    "latency_ms": ("milliseconds", "Time to a lit venue."),
    "dark_latency_ms": ("milliseconds", "Time to a dark pool and back."),
    "seeds": ("", "How often all is played, each time with other luck in dark pools."),
    "seed": ("", "The same seed gives the same study."),
    "block_minutes": ("minutes", "Length of the time blocks that are resampled for confidence intervals."),
    "surface_orders": ("", "Orders a day for every assumption on dark pools that is tried; 0 tries none."),
    "protection": (
        "",
        "`reg-nms` if venues protect each other's quotes, or `none`; by default `reg-nms` for synthetic days and US "
        "equities.",
    ),
    "stresses": ("", "Whether the chosen router and the benchmark rule are also played under stress."),
    "fees": ("", "A fee schedule for recorded days, see [below](#feestoml)."),
    "pools": ("", "Dark pools, see below; those of the market if left out."),
}

POOLS: Meanings = {
    "name": ("", "The name of the pool."),
    "presence": ("probability", "How likely it holds shares for us, under ordinary conditions."),
    "rate": ("1 / second", "Counterparties that come to a resting order."),
    "tail": ("", "Exponent of the power law of sizes, above 0. The smaller, the more often there are large sizes."),
    "smallest": ("shares", "The least size."),
    "largest": ("shares", "The largest size."),
    "spread": ("log odds", "Change of the presence where the spread is e times its median."),
    "recent": ("log odds", "Change of the presence where we were filled there within the last minute."),
    "state": ("log odds", "Change of the presence with a standard deviation of the pool's state."),
    "adverse": ("", "Presence is `exp(adverse)` times as likely before moves that make us regret a fill."),
    "fee": ("dollars per share", "Fee for what is traded in the pool; a rebate is negative."),
    "improvement": ("half-spreads", "Where trades take place, from the mid in our favour, -1 to 1."),
}

SPLIT_STUDY: Meanings = {
    "data": (
        "",
        '`"synthetic"` makes a market; otherwise a folder of `riskroute market import`, or files to import. '
        "Paths are relative to where the command is run.",
    ),
    "symbol": ("", "The stock to trade. Needed where the data hold several."),
    "date": ("day of the recordings' zone", "The day to use. Needed where the data hold several."),
    "venue": ("market identifier code", "The venue of files that do not name it; not for the synthetic market."),
    "max_unresolved": ("share", "A file is refused if more of its messages than this refer to unknown orders."),
    "max_crossed": ("share", "A file is refused if more of its books than this have a bid at or above the ask."),
    "side": ("", "`sell` or `buy`."),
    "shares": ("shares", "Order sizes, at least 2; the study answers for each of them."),
    "risk_tolerances": (
        "dollars",
        "Weight of the mean (dollars) against the variance (squared dollars). Smaller is more careful.",
    ),
    "market": ("market identifier codes", "Venues for market orders; all recorded ones if left out."),
    "limit": ("market identifier codes", "Venues that take limit orders too. Needs recorded events."),
    "dark": (
        "",
        "Dark pools, see below. If left out, two for the synthetic market and none for data of your own; "
        "`dark = []` stands for none at all.",
    ),
    "lot": (
        "shares",
        "Slots take multiples of this. If left out, it is chosen so that an order has 20 to 100 lots, "
        "or it is 1 where that cannot be.",
    ),
    "caps": ("shares", "The most that a slot may take, by the name the report gives it."),
    "fees": ("", "A fee schedule, see [below](#feestoml); profits are then net of fees."),
    "train": (
        "time of the recordings' zone",
        "The part of the day on which models are fitted and the split and policy are chosen.",
    ),
    "test": (
        "time of the recordings' zone",
        "The part of the day on which the choice is tested. May not overlap `train`.",
    ),
    "bucket_minutes": ("minutes", "Length of a bucket. Limit orders wait until their bucket ends."),
    "repeats": ("", "Sample times per bucket."),
    "levels": ("price levels", "How far an order may walk the book, from the best price; to the end if left out."),
    "horizon": ("orders", "Orders routed one after the other in a run."),
    "runs": ("", "Runs of each policy, for the error bars."),
    "policies": ("", "Policies to play, by name, see [Choosing a policy](policies.md)."),
    "seed": ("", "The same seed gives the same study."),
}

DARK: Meanings = {
    "name": ("", "The name in the report. Pools of different names draw independently."),
    "presence": ("probability", "How likely there is any hidden size, 0 to 1."),
    "tail": ("", "Exponent of the power law, above 0. The smaller, the more often there are large sizes."),
    "smallest": ("shares", "The least hidden size, if there is any."),
    "improvement": (
        "half-spreads",
        "Where trades take place, from the mid in our favour, -1 to 1: 0 is the mid, -1 no better than crossing.",
    ),
    "fee": ("dollars per share", "Fee for what is traded in the pool; a rebate is negative."),
    "venue": ("market identifier code", "Where the remainder crosses; the venue with the most books if left out."),
}

SWEEP: Meanings = {
    "slots": ("", "Numbers of slots."),
    "shares": ("shares", "Order sizes."),
    "risk_tolerances": ("unit of the reward", "Weights of the mean against the variance."),
    "horizons": ("orders", "Rounds per run."),
    "instances": ("", "Numbers of random instances; a single number `n` stands for the first `n`."),
    "policies": ("", "Policies to play, by name, see [Choosing a policy](policies.md)."),
    "parameters": ("", "Parameters of policies other than their defaults, see below."),
    "runs": ("", "Runs per policy and combination."),
    "seed": ("", "Seed of the rewards and of the policies' own draws."),
    "checkpoints": ("", "Rounds recorded per run; the last one always is."),
}

VENUES: Meanings = {
    "name": ("", "The venue, or the slot where a venue has several."),
    "mean": (
        "dollars per share, and per squared share",
        "Coefficients of the mean profit from `q` shares: of `q` and `q²`.",
    ),
    "variance": (
        "squared dollars per share, and per squared share",
        "Coefficients of the variance of the profit: of `q` and `q²`.",
    ),
    "kind": ("", "Market orders, limit orders or a dark pool."),
    "mean_error": ("as `mean`", "Standard errors of `mean`, if it was estimated."),
    "variance_error": ("as `variance`", "Standard errors of `variance`, if it was estimated."),
}

FEES: Meanings = {
    "venue": ("market identifier code", "The venue."),
    "from": ("day", "The first day on which the entry holds, until a later one of the same venue replaces it."),
    "taker": ("dollars per share", "Paid by an order that trades at once; a rebate is negative."),
    "maker": ("dollars per share", "Paid by an order that waits in the book; a rebate is negative."),
}

LIVE: Meanings = {
    "mode": ("", "`live` trades; `shadow` learns from what another router did, and sends nothing."),
    "partition": ("", "K/N: the process trades the K-th of N parts of the symbols. Several parts need PostgreSQL."),
    "listen": ("", "Host and port of the service."),
    "public": ("", "Must be true to listen on an address that other machines can reach."),
    "log": ("", "Where everything is written, see below."),
    "router": ("", "Which router decides, see below."),
    "venues": ("", "Lit venues by name, see below."),
    "pools": ("", "Dark pools by name, see below."),
    "instruments": ("", "Symbols that may be traded, see below."),
    "limits": ("", "What is allowed, whatever the router says, see below."),
    "tokens": ("", "Who may use the service, see below."),
    "patience_seconds": ("seconds", "A venue that has not answered for so long is asked."),
    "longest_seconds": ("seconds", "Time that an order may have, at most."),
    "body_bytes": ("bytes", "Larger requests are refused."),
    "halt_file": ("", "While this file is there, trading is halted. Paths are relative to the configuration."),
}

LIVE_LOG: Meanings = {
    "path": ("", "A file of SQLite; either this or `postgres` must be given."),
    "postgres": ("", "How to connect to a PostgreSQL database, as libpq reads it; needs `riskroute[postgres]`."),
    "stream": ("", "Name of the log; several logs may share a database."),
    "snapshot_every": (
        "events",
        "Events between snapshots, which make a start quick; ten times as many under a load without a pause. "
        "0 takes none.",
    ),
    "lease_seconds": ("seconds", "On PostgreSQL, a router that is silent for so long may be replaced."),
    "quotes": ("", "Whether books and trades sent to `/quotes` are written to the log, so that it can be exported."),
}

LIVE_ROUTER: Meanings = {
    "name": ("", "`NAME` or `NAME:KEY=VALUE,...`, see [The routers](routers.md)."),
    "state": ("", "A file that `riskroute study` wrote: the router begins with what it learned there."),
    "refit_every": ("orders", "0 learns from every order at once; otherwise from so many together, beside trading."),
    "decision_ms": ("milliseconds", "A router that takes longer is put out of service; any time if left out."),
}

LIVE_VENUE: Meanings = {
    "kind": ("", "How the venue is reached; simulated venues trade on the books that orders bring."),
    "taker": ("dollars per share", "Fee for shares that trade at once; a rebate is negative."),
    "maker": ("dollars per share", "Fee for shares that wait in the book; a rebate is negative."),
    "latency_ms": ("milliseconds", "Time to the venue and back."),
    "seed": ("", "The same seed gives the same luck."),
    "fill_seconds": ("seconds", "A resting order meets somebody so often, on average."),
    "reject": ("probability", "A child order is rejected."),
    "partial": ("probability", "A fill comes in two parts."),
    "duplicate": ("probability", "A report comes twice."),
    "disorder": ("probability", "A report is late, and others overtake it."),
    "silence": ("probability", "A report is lost, until somebody asks."),
    "lost": ("probability", "A child order never arrives."),
}

LIVE_POOL: Meanings = {
    "fee": ("dollars per share", "Fee for what is traded in the pool; a rebate is negative."),
    "improvement": ("half-spreads", "Where trades take place, from the mid in favour of the order, -1 to 1."),
    "hidden": ("shares", "Shares that a simulated pool holds, on average."),
}

LIVE_INSTRUMENT: Meanings = {
    "lot": ("shares", "Child orders are multiples of this."),
    "tick": ("dollars", "Smallest step of a price."),
}

LIVE_LIMITS: Meanings = {
    "order_quantity": ("shares", "Size of an order, at most."),
    "order_notional": ("dollars", "Value of an order at the mid, at most."),
    "symbol_quantity": ("shares", "Of all orders in a symbol that are not settled, at most."),
    "symbol_notional": ("dollars", "Value of all orders in a symbol that are not settled, at most."),
    "venue_open": ("children", "Open child orders at a venue, at most."),
    "day_orders": ("orders", "Orders of a day (UTC), at most."),
    "day_notional": ("dollars", "Value of the orders of a day, at most."),
    "day_loss": ("dollars", "Cost of a day against the arrival mids; more halts trading."),
    "day_rejects": ("rejects", "Child orders rejected on a day; more halts trading."),
    "rejects_in_a_row": ("rejects", "Child orders that a venue rejects one after the other; more halts trading."),
    "unknown": ("children", "Child orders of which nothing was heard; more halts trading."),
    "unsettled": ("orders", "With so many orders under way the safe router, `sweep`, decides on the next one."),
    "collar_bps": ("basis points", "No child order is sent at a price further from the arrival mid."),
    "quote_seconds": ("seconds", "Orders whose newest quote is older are refused."),
    "stale_quotes": ("orders", "Orders in a row that had old quotes; more halts trading."),
    "clock_jump_seconds": ("seconds", "A jump of the clock by more halts trading."),
    "slow_write_seconds": ("seconds", "A write to the log that takes longer halts trading."),
}

LIVE_TOKEN: Meanings = {
    "hash": ("", "Hash of the token; `riskroute live token` makes a token and its hash."),
    "scopes": ("", "`trade` for orders, quotes and resuming; `halt` to halt; `read` to look, as the others may too."),
}
