-- The two sums of a side's volume-weighted average price: price_volume / volume.
SELECT symbol, 'B' AS side, SUM(price * volume) AS price_volume, SUM(volume) AS volume FROM bids GROUP BY symbol
UNION ALL
SELECT symbol, 'S' AS side, SUM(price * volume) AS price_volume, SUM(volume) AS volume FROM asks GROUP BY symbol;
