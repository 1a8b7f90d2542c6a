-- Who traded: the side of each trade by the quote before it, and at the mid by the tick test (Lee and Ready, 1991). A price
-- above the mid is a buyer's, one below is a seller's; at the mid, and without a quote on both sides, the side is that of
-- the last change of the symbol's price, the trade's own included: up is a buyer's, down a seller's. It is NULL before the
-- first change. A quote counts from the nanosecond behind it on, so that what a trade does to the touch is no part of its
-- own quote; of several changes at one time the last one counts.
INCLUDE 'quotes.sql';
CREATE STREAM signed_trades RETAIN 100000 ROWS RETAIN INTERVAL '10' MINUTE AS
SELECT trades.t, trades.match_id, trades.symbol, trades.price, trades.volume, quote.bid_price, quote.ask_price,
       CASE WHEN 2 * trades.price > quote.bid_price + quote.ask_price THEN 'B'
            WHEN 2 * trades.price < quote.bid_price + quote.ask_price THEN 'S'
            ELSE tick.side END AS side
FROM trades
ASOF LEFT JOIN (
    SELECT symbol, window_end AS t, LAST(bid_price) AS bid_price, LAST(ask_price) AS ask_price
    FROM quotes
    GROUP BY symbol, TUMBLE(t, 1)
) AS quote ON trades.symbol = quote.symbol AND trades.t >= quote.t
ASOF LEFT JOIN (
    SELECT symbol, t, CASE WHEN price > price_before THEN 'B' ELSE 'S' END AS side
    FROM (SELECT symbol, t, price, LAG(price) OVER (PARTITION BY symbol ORDER BY t) AS price_before FROM trades) AS moves
    WHERE price <> price_before
) AS tick ON trades.symbol = tick.symbol AND trades.t >= tick.t;
