-- For each side of a book the two sums of its volume-weighted average price, which is price_volume / volume.
SELECT symbol, 'B' AS side, SUM(price * volume) AS price_volume, SUM(volume) AS volume FROM bids GROUP BY symbol
UNION ALL
SELECT symbol, 'S' AS side, SUM(price * volume) AS price_volume, SUM(volume) AS volume FROM asks GROUP BY symbol;
