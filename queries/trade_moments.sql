-- The number n of recent trades, and the sums of their prices p and of the squares: n · Σp² - (Σp)² is exactly n² times
-- the variance of the price.
SELECT symbol, COUNT(*) AS trades, SUM(price) AS price_sum, SUM(price * price) AS square_sum FROM trades GROUP BY symbol;
