-- Trades with the side that caused them: by the quote before the trade or, at the mid of that quote, by the tick test
-- (Lee and Ready, 1991). A trade above the mid is a buyer's (B), one below it a seller's (S). A trade at the mid, or
-- without a quote on both sides, has the side of the latest change of the symbol's trade price, which the trade itself
-- may have caused: B if the price rose, S if it fell, and NULL before the first change. A quote is valid from the next
-- nanosecond on, so that a trade is not compared with the quote that it caused; of several changes of a quote at one
-- time the last one counts.
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
