-- The number n of recent trades, the sum of their prices p, and the sum of the squares of the prices. The variance of
-- the price is exactly (n · Σp² - (Σp)²) / n².
SELECT symbol, COUNT(*) AS trades, SUM(price) AS price_sum, SUM(price * price) AS square_sum FROM trades GROUP BY symbol;
