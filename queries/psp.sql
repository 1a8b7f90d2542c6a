-- Price spread: the sum of the ask's price less the bid's price, over all pairs of an ask and a bid that each have more
-- than a ten-thousandth of the volume of their side.
INCLUDE 'finance_schema.sql';

SELECT SUM(a.price + (-1 * b.price)) AS psp
FROM bids b, asks a
WHERE (b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1))
  AND (a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1));
