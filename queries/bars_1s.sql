-- One bar a symbol and second of market time, kept for a day. VWAP is value / volume: prices times volumes, and volumes.
CREATE STREAM bars_1s RETAIN INTERVAL '1' DAY AS
SELECT symbol, window_start AS t,
       FIRST(price) AS open, MAX(price) AS high, MIN(price) AS low, LAST(price) AS close,
       SUM(price * volume) AS value, SUM(volume) AS volume, COUNT(*) AS trades
FROM trades
GROUP BY symbol, TUMBLE(t, INTERVAL '1' SECOND);
