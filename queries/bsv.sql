-- Bid variance: per broker, half the product of the values of every two of its bids.
INCLUDE 'finance_schema.sql';

SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) AS bsv
FROM bids x, bids y
WHERE x.broker_id = y.broker_id
GROUP BY x.broker_id;
