"""Units and descriptions of configuration keys, for the generated reference page; an empty unit means none."""

from __future__ import annotations

Meanings = dict[str, tuple[str, str]]

STUDY: Meanings = {
    "market": (
        "",
        "A synthetic market (`paper`, `comparable`, `dark`) or a folder written by `riskroute market import`.",
    ),
    "symbols": ("", "Symbols. Default: the first of a synthetic market, all of a folder."),
    "quantities": ("quantity", "Order sizes, such as 1000 (shares) or 0.25 (BTC); each has its own verdict."),
    "side": ("", "`buy`, `sell`, or `both` alternating."),
    "lot": ("quantity", "Child orders are multiples of this quantity. Default: the lot of the instrument."),
    "horizons": ("seconds", "Deadlines of orders, 0 for immediate execution; each has its own verdict."),
    "risk": (
        "",
        "Risk profile: `cheapest` minimises mean cost, `balanced` mean cost plus 0.05 times variance, `cautious` the "
        "same with the expected shortfall capped at the benchmark rule's; or kappa, basis points charged per squared "
        "basis point of variance of the unforeseen cost.",
    ),
    "benchmark": (
        "",
        "Price against which costs are stated: the mid (`arrival`) or the far touch (`touch`) at arrival, or the VWAP "
        "of the public trades (`vwap`) or the TWAP of the mid (`twap`) from arrival to the horizon.",
    ),
    "days": ("", "Days to replay. Default: 16 of a synthetic market, all of a folder."),
    "train": (
        "",
        "Training days, at the start, on which routers learn and one is selected. Default: half of the days.",
    ),
    "routers": (
        "",
        "Routers to compare with the simple rules, `NAME` or `NAME:KEY=VALUE`; see [The routers](routers.md).",
    ),
    "orders": ("", "Orders per day."),
    "hours": (
        "time of the recordings' zone",
        "Times between which orders arrive, such as `10:30-11:30`; a synthetic day (New York time) has only these "
        "hours. Default: 10:30-13:30 for synthetic days, 09:35-15:55 for New York recordings, the whole day "
        "elsewhere.",
    ),
    "latency_ms": ("milliseconds", "Latency to a lit venue."),
    "dark_latency_ms": ("milliseconds", "Round trip to a dark pool."),
    "seeds": (
        "",
        "Draws of arrival times, among which the orders of a day are divided; each has its own draws in dark pools.",
    ),
    "seed": ("", "The same seed gives the same study."),
    "block_minutes": ("minutes", "Length of the time blocks that are resampled with fewer than eight test days."),
    "surface_orders": (
        "",
        "Orders per day for each alternative dark-pool assumption; 0 skips the sensitivity analysis.",
    ),
    "protection": (
        "",
        "`reg-nms` (order protection) or `none`. Default: `reg-nms` for synthetic days and US equities, else `none`.",
    ),
    "queue": (
        "",
        "Queue positions at venues whose trades have no order ids: `pessimistic`, `proportional`, `power`, "
        "`optimistic`, or `exact` (no limit orders there). Default: `pessimistic`; see [Estimated queue "
        "positions](backtest.md#estimated-queue-positions).",
    ),
    "frontier": ("", "Whether to answer for the other risk profiles too, and to draw the risk frontier."),
    "stresses": ("", "Whether to stress-test the selected router and the benchmark rule."),
    "fees": ("", "A fee schedule for recorded days, see [below](#feestoml)."),
    "pools": ("", "Dark pools, see below. Default: those of the market."),
}

POOLS: Meanings = {
    "name": ("", "The name of the pool."),
    "presence": ("probability", "Probability of contra-side liquidity under median conditions."),
    "rate": ("1 / second", "Arrival rate of counterparties to a resting order."),
    "tail": ("", "Exponent of the power law of sizes, above 0. Smaller values give heavier tails."),
    "smallest": ("quantity", "Smallest hidden size."),
    "largest": ("quantity", "Largest hidden size."),
    "spread": ("log odds", "Change of the presence per unit of log spread over its median."),
    "recent": ("log odds", "Change of the presence if one of our orders was filled there within the last minute."),
    "state": ("log odds", "Change of the presence per standard deviation of the pool's state."),
    "adverse": ("", "Adverse selection: presence is `exp(adverse)` times as likely before a move against us."),
    "fee": ("dollars per share", "Fee for shares traded in the pool; a rebate is negative."),
    "improvement": ("half-spreads", "Price improvement over the mid, -1 to 1."),
}

SPLIT_STUDY: Meanings = {
    "data": (
        "",
        '`"synthetic"`, a folder written by `riskroute market import`, or files to import. '
        "Paths are relative to the working directory.",
    ),
    "symbol": ("", "Symbol to trade. Required if the data have several."),
    "date": ("day of the recordings' zone", "Day to use. Required if the data have several."),
    "venue": ("market identifier code", "Venue of files that do not name theirs; not for the synthetic market."),
    "max_unresolved": ("fraction", "Largest accepted fraction of messages that refer to unknown orders."),
    "max_crossed": ("fraction", "Largest accepted fraction of books with a bid at or above the ask."),
    "side": ("", "Whether the orders sell or buy."),
    "quantities": ("quantity", "Order sizes, at least 2 units of the instrument; each has its own verdict."),
    "risk_tolerances": (
        "quote currency",
        "Weight of the mean against the variance, in the quote currency. Smaller is more risk-averse.",
    ),
    "market": ("market identifier codes", "Venues for market orders. Default: all recorded ones."),
    "limit": ("market identifier codes", "Venues that take limit orders too. Needs recorded events."),
    "dark": (
        "",
        "Dark pools, see below. Default: two for the synthetic market, none for other data; `dark = []` for none.",
    ),
    "lot": (
        "quantity",
        "Lot size of slots. Default: one that divides an order into 20 to 100 lots, or that of the instrument.",
    ),
    "caps": ("quantity", "Largest quantity per slot, by the slot's name in the report."),
    "fees": ("", "A fee schedule, see [below](#feestoml); profits are then net of fees."),
    "train": (
        "time of the recordings' zone",
        "Training window, in which models are fitted, and split and policy are selected.",
    ),
    "test": (
        "time of the recordings' zone",
        "Test window; must not overlap `train`.",
    ),
    "bucket_minutes": ("minutes", "Length of a bucket. Limit orders rest until their bucket ends."),
    "repeats": ("", "Sample times per bucket."),
    "levels": ("price levels", "Largest number of price levels an order may walk. Default: all."),
    "horizon": ("orders", "Orders per run."),
    "runs": ("", "Runs per policy."),
    "policies": ("", "Policies to play, by name, see [Choosing a policy](policies.md)."),
    "seed": ("", "The same seed gives the same study."),
}

DARK: Meanings = {
    "name": ("", "Name in the report. Pools with different names have independent random numbers."),
    "presence": ("probability", "Probability of hidden size, 0 to 1."),
    "tail": ("", "Exponent of the power law, above 0. Smaller values give heavier tails."),
    "smallest": ("quantity", "Smallest hidden size."),
    "improvement": (
        "half-spreads",
        "Price improvement over the mid, -1 to 1: 0 fills at the mid, -1 at the far side of the spread.",
    ),
    "fee": ("quote currency per quantity of 1", "Fee for quantity traded in the pool; a rebate is negative."),
    "venue": (
        "market identifier code",
        "Venue where the remainder crosses the spread. Default: the venue with the most books.",
    ),
}

SWEEP: Meanings = {
    "slots": ("", "Numbers of slots."),
    "shares": ("shares", "Order sizes."),
    "risk_tolerances": ("unit of the reward", "Weights of the mean against the variance."),
    "horizons": ("orders", "Rounds per run."),
    "instances": ("", "Numbers of random instances; a single number `n` stands for the first `n`."),
    "policies": ("", "Policies to play, by name, see [Choosing a policy](policies.md)."),
    "parameters": ("", "Non-default parameters of policies, see below."),
    "runs": ("", "Runs per policy and combination."),
    "seed": ("", "Seed of the rewards and of the policies' own draws."),
    "checkpoints": ("", "Rounds recorded per run, including the last."),
}

VENUES: Meanings = {
    "name": ("", "The venue, or the slot if the venue has several."),
    "mean": (
        "quote currency per quantity of 1, and per squared quantity",
        "Coefficients of the mean profit from `q` shares: of `q` and `q²`.",
    ),
    "variance": (
        "squared quote currency per quantity of 1, and per squared quantity",
        "Coefficients of the variance of the profit: of `q` and `q²`.",
    ),
    "kind": ("", "Market orders, limit orders or a dark pool."),
    "mean_error": ("as `mean`", "Standard errors of `mean`, if it was estimated."),
    "variance_error": ("as `variance`", "Standard errors of `variance`, if it was estimated."),
}

FEES: Meanings = {
    "venue": ("market identifier code", "The venue."),
    "from": ("day", "First day of the entry; a later entry of the same venue replaces it."),
    "taker": (
        "see [fees](backtest.md#fees)",
        "Fee for taking liquidity, such as `0.003 per share` or `10 bps`, or a table of `fee`, `minimum`, `maximum`; a "
        "rebate is negative.",
    ),
    "maker": ("as `taker`", "Fee for a passive fill."),
    "symbol": ("", "The only symbol of the entry, which takes precedence over entries for all symbols."),
    "currency": ("", "Currency of the amounts; default: the quote currency."),
    "conversion": ("quote currency", "Value of 1 of the fee currency; not needed for basis points."),
    "volume": (
        "currency or quantity",
        "Own trailing volume at the venue, such as `3,000,000 USDT`; it selects the tier.",
    ),
    "tiers": ("", "Tables of `volume`, `taker` and `maker`: fees at larger volumes, the smallest volume first."),
}

LIVE: Meanings = {
    "mode": ("", "`live` trades; `shadow` sends no orders and learns from the fills of another router."),
    "partition": ("", "K/N: this process trades partition K of N of the symbols. More than one needs PostgreSQL."),
    "listen": ("", "Host and port of the service."),
    "public": ("", "Must be true to listen on an address that other machines can reach."),
    "log": ("", "The event log, see below."),
    "router": ("", "The router, see below."),
    "venues": ("", "Lit venues by name, see below."),
    "pools": ("", "Dark pools by name, see below."),
    "instruments": ("", "Tradable symbols, see below, or the path of a file with these sections."),
    "fees": ("", "A fee schedule for venues and pools that state no fees, see [below](#feestoml)."),
    "limits": ("", "Risk limits, see below."),
    "tokens": ("", "Access tokens, see below."),
    "patience_seconds": ("seconds", "Time without a report after which a venue is queried."),
    "longest_seconds": ("seconds", "Longest deadline of an order."),
    "body_bytes": ("bytes", "Largest accepted request."),
    "halt_file": (
        "",
        "Creating this file halts trading, which cannot resume before the file is removed. Paths are relative to the "
        "configuration file.",
    ),
    "control_socket": (
        "",
        "Unix socket of `riskroute live halt` and `health`. Default: beside the SQLite file.",
    ),
}

LIVE_LOG: Meanings = {
    "path": ("", "SQLite file; give either this or `postgres`."),
    "postgres": ("", "libpq connection string of a PostgreSQL database; needs `riskroute[postgres]`."),
    "stream": ("", "Name of the log; several logs may share a database."),
    "head_key": (
        "",
        "File with a key of at least 32 bytes, mode 600, that signs the recorded head. "
        "Keep it where those who can write the log cannot read it.",
    ),
    "snapshot_every": (
        "events",
        "Events between snapshots, which shorten recovery and move settled orders out of memory. 0 for none.",
    ),
    "lease_seconds": ("seconds", "Lease duration on PostgreSQL: a standby may take over after this silence."),
    "quotes": ("", "Whether books and trades sent to `/quotes` are written to the log, so that it can be exported."),
    "source_quotes": ("", "Whether books and trades from the venues' own sources are written to the log too."),
}

LIVE_ROUTER: Meanings = {
    "name": ("", "`NAME` or `NAME:KEY=VALUE,...`, see [The routers](routers.md)."),
    "state": ("", "Router state to start from, written by `riskroute study`."),
    "refit_every": (
        "orders",
        "Settled orders per refit in a background worker; 0 learns from each order when it settles.",
    ),
    "decision_ms": ("milliseconds", "Decision time above which the router is taken out of service. Default: no limit."),
}

LIVE_VENUE: Meanings = {
    "kind": (
        "",
        "Kind of venue: `simulated`, which fills against the newest books; `ccxt`, an [exchange](venues.md); or one "
        "that an installed package registers, see [Venues of your own](own-venue.md).",
    ),
    "options": ("", "Settings of a kind that is not simulated, as a table."),
    "taker": ("", "Fee for taking liquidity, as in [fees.toml](#feestoml); a rebate is negative."),
    "maker": ("", "Fee for a passive fill; a rebate is negative."),
    "foreign": (
        "",
        "Whether an order of somebody else on the same account halts trading (`halt`) or is ignored (`ignore`).",
    ),
    "orders_per_second": (
        "",
        "Orders, cancels and queries per second that the session may send; places with the same session share the "
        "lowest. Default: no limit.",
    ),
    "burst": ("", "Orders, cancels and queries that may be sent at once; a fifth is only for cancels and queries."),
    "hold_ms": ("milliseconds", "Longest wait of a child for `orders_per_second`; then it is sent elsewhere."),
    "latency_ms": ("milliseconds", "Round trip to the venue."),
    "seed": ("", "Seed of the simulated fills and faults."),
    "fill_seconds": ("seconds", "Mean time between fills of a resting order."),
    "reject": ("probability", "Probability that a child order is rejected."),
    "partial": ("probability", "Probability that a fill is split in two."),
    "duplicate": ("probability", "Probability that a report is duplicated."),
    "disorder": ("probability", "Probability that a report is delayed and arrives out of order."),
    "silence": ("probability", "Probability that a report is lost until the venue is queried."),
    "lost": ("probability", "Probability that a child order never arrives."),
}

LIVE_POOL: Meanings = {
    "fee": ("", "Fee of the pool, as in [fees.toml](#feestoml); a rebate is negative."),
    "improvement": ("half-spreads", "Price improvement over the mid, -1 to 1."),
    "hidden": ("quantity", "Mean hidden quantity of a simulated pool."),
}

LIVE_INSTRUMENT: Meanings = {
    "unit": ("quantity", "Smallest quantity; all quantities are multiples of it."),
    "tick": ("price", "Smallest price step."),
    "lot": ("quantity", "Order sizes are multiples of it. Default: the unit."),
    "minimum_quantity": ("quantity", "Smallest order that venues accept."),
    "minimum_notional": ("currency", "Smallest value of an order that venues accept."),
    "quantity": ("", "What is counted, in the plural: `shares`, `contracts`, `BTC`."),
    "currency": ("", "Quote currency; all instruments of a service have the same."),
    "multiplier": ("", "Money per 1 of price for a quantity of 1."),
    "zone": ("", "Time zone of days and hours."),
    "hours": ("time of the zone", "Trading session, OPEN-CLOSE. Default: a continuous market."),
    "protection": (
        "",
        "`reg-nms`: better displayed prices first, whatever the fees; `none`: cheapest after fees first.",
    ),
    "negative_prices": ("", "Whether prices may be zero or negative; the live router refuses such instruments."),
}

LIVE_LIMITS: Meanings = {
    "order_quantity": ("quantity", "Largest order, in the quantity of its instrument."),
    "order_notional": ("currency", "Largest value of an order at the mid."),
    "symbol_quantity": ("quantity", "Largest total of unsettled orders in a symbol."),
    "symbol_notional": ("currency", "Largest total value of unsettled orders in a symbol."),
    "venue_open": ("children", "Largest number of open child orders at a venue."),
    "day_orders": ("orders", "Largest number of orders per day (UTC)."),
    "day_notional": ("currency", "Largest total value of orders per day (UTC)."),
    "day_loss": ("currency", "Daily cost against arrival mids above which trading halts."),
    "day_rejects": ("rejects", "Rejected child orders per day above which trading halts."),
    "rejects_in_a_row": ("rejects", "Consecutive rejects of a venue above which trading halts."),
    "unknown": ("children", "Child orders with unknown status above which trading halts."),
    "unsettled": ("orders", "Unsettled orders at which the fallback router, `sweep`, takes over."),
    "collar_bps": ("basis points", "Price collar: largest distance of a child order's price from the arrival mid."),
    "quote_seconds": (
        "seconds",
        "Largest age of a quote at the receipt of the order. Older quotes are left out; an order without others is "
        "refused.",
    ),
    "stale_quotes": ("orders", "Consecutive orders with stale quotes above which trading halts."),
    "clock_jump_seconds": ("seconds", "Clock jump above which trading halts."),
    "slow_write_seconds": ("seconds", "Duration of a log write above which trading halts."),
}

LIVE_TOKEN: Meanings = {
    "hash": ("", "Hash of the token; `riskroute live token` creates both."),
    "scopes": (
        "",
        "`trade` for orders, quotes and resuming; `halt` to halt; `read` for read access, which the others include.",
    ),
}
