-- A price bar for each symbol and second of market time, kept for a day. Its volume-weighted average price (VWAP) is
-- value / volume.
CREATE STREAM bars_1s RETAIN INTERVAL '1' DAY AS
SELECT symbol, window_start AS t,
       FIRST(price) AS open, MAX(price) AS high, MIN(price) AS low, LAST(price) AS close,
       SUM(price * volume) AS value, SUM(volume) AS volume, COUNT(*) AS trades
FROM trades
GROUP BY symbol, TUMBLE(t, INTERVAL '1' SECOND);
