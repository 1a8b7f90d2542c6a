-- For the recent trades the two sums of their volume-weighted average price, which is price_volume / volume.
SELECT symbol, SUM(price * volume) AS price_volume, SUM(volume) AS volume, COUNT(*) AS trades FROM trades GROUP BY symbol;
