-- The spread for each symbol and second, weighted by time: weighted / lasted is its mean in ticks. The whole duration
-- of a spread counts in the second in which the spread ends. While a side of the book is empty, there is no spread.
INCLUDE 'quotes.sql';
CREATE STREAM spread_1s RETAIN INTERVAL '1' DAY AS
SELECT symbol, window_start AS t, SUM(spread * lasted) AS weighted, SUM(lasted) AS lasted, COUNT(*) AS quotes
FROM (
    SELECT t, symbol,
           LAG(ask_price - bid_price) OVER (PARTITION BY symbol ORDER BY t) AS spread,
           t - LAG(t) OVER (PARTITION BY symbol ORDER BY t) AS lasted
    FROM quotes
) AS quote
WHERE spread IS NOT NULL
GROUP BY symbol, TUMBLE(t, INTERVAL '1' SECOND);
