-- Missed trades: for each broker, over all pairs of one of its bids and any ask, the sum of the ask's value (price ×
-- volume) less the bid's. Only the quarter of each side's volume at the highest prices counts.
INCLUDE 'finance_schema.sql';

SELECT b.broker_id, SUM((a.price * a.volume) + (-1 * b.price * b.volume)) AS mst
FROM bids b, asks a
WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1) > (SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price)
  AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price)
GROUP BY b.broker_id;
