-- The two sums of the volume-weighted average price (price_volume / volume) of the recent trades.
SELECT symbol, SUM(price * volume) AS price_volume, SUM(volume) AS volume, COUNT(*) AS trades FROM trades GROUP BY symbol;
