-- Missed trades: for each broker, the sum of the ask's value (price × volume) less the bid's value, over all pairs of
-- one of its bids and any ask. Only the orders in the quarter of a side's volume at the highest prices count.
INCLUDE 'finance_schema.sql';

SELECT b.broker_id, SUM((a.price * a.volume) + (-1 * b.price * b.volume)) AS mst
FROM bids b, asks a
WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1) > (SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price)
  AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price)
GROUP BY b.broker_id;
