-- A price bar for each symbol and second of market time, from the recent trades: open, high, low, close, volume, number
-- of trades.
SELECT symbol, t // 1000000000 AS second,
       ARG_MIN(price, match_id) AS open, MAX(price) AS high, MIN(price) AS low, ARG_MAX(price, match_id) AS close,
       SUM(volume) AS volume, COUNT(*) AS trades
FROM trades
GROUP BY symbol, t // 1000000000;
