-- Bid variance: for each broker, half the sum of the products of the values (price × volume) of two bids, over all
-- ordered pairs of its bids; a pair may have the same bid twice.
INCLUDE 'finance_schema.sql';

SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) AS bsv
FROM bids x, bids y
WHERE x.broker_id = y.broker_id
GROUP BY x.broker_id;
