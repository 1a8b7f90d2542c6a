-- The two sums whose quotient (price_volume / volume) is the volume-weighted average price of the recent trades.
SELECT symbol, SUM(price * volume) AS price_volume, SUM(volume) AS volume, COUNT(*) AS trades FROM trades GROUP BY symbol;
