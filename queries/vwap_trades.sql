-- The two sums of the volume-weighted average price of recent trades: price_volume / volume.
SELECT symbol, SUM(price * volume) AS price_volume, SUM(volume) AS volume, COUNT(*) AS trades FROM trades GROUP BY symbol;
