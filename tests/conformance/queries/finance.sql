-- The order-book queries as they are run elsewhere, with thresholds that small books pass.

-- name: axf
-- class: ordered
-- mode: both
SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) AS axfinder
FROM bids b, asks a
WHERE b.broker_id = a.broker_id
  AND ((a.price + ((-1) * b.price) > 1000) OR (b.price + ((-1) * a.price) > 1000))
GROUP BY b.broker_id;

-- name: axf_near
-- class: ordered
SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) AS axfinder
FROM bids b, asks a
WHERE b.broker_id = a.broker_id AND ((a.price - b.price > 1) OR (b.price - a.price >= 2))
GROUP BY b.broker_id;

-- name: bsp
-- class: ordered
-- mode: both
SELECT x.broker_id, SUM((x.volume * x.price) - (y.volume * y.price)) AS bsp
FROM bids x, bids y
WHERE x.broker_id = y.broker_id AND x.t > y.t
GROUP BY x.broker_id;

-- name: bsv
-- class: multilinear
-- mode: both
SELECT x.broker_id, SUM(x.volume * x.price * y.volume * y.price * 0.5) AS bsv
FROM bids x, bids y
WHERE x.broker_id = y.broker_id
GROUP BY x.broker_id;

-- name: mst
-- class: ordered
-- mode: both
SELECT b.broker_id, SUM((a.price * a.volume) + (-1 * b.price * b.volume)) AS mst
FROM bids b, asks a
WHERE 0.25 * (SELECT SUM(a1.volume) FROM asks a1) > (SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price)
  AND 0.25 * (SELECT SUM(b1.volume) FROM bids b1) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price)
GROUP BY b.broker_id;

-- name: mst_wide
-- class: ordered
-- mode: both
SELECT b.broker_id, SUM((a.price * a.volume) + (-1 * b.price * b.volume)) AS mst
FROM bids b, asks a
WHERE 0.75 * (SELECT SUM(a1.volume) FROM asks a1) > (SELECT SUM(a2.volume) FROM asks a2 WHERE a2.price > a.price)
  AND 0.75 * (SELECT SUM(b1.volume) FROM bids b1) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b.price)
GROUP BY b.broker_id;

-- name: psp
-- class: ordered
-- mode: both
SELECT SUM(a.price + (-1 * b.price)) AS psp
FROM bids b, asks a
WHERE (b.volume > 0.0001 * (SELECT SUM(b1.volume) FROM bids b1))
  AND (a.volume > 0.0001 * (SELECT SUM(a1.volume) FROM asks a1));

-- name: psp_tenth
-- class: ordered
-- mode: both
SELECT SUM(a.price + (-1 * b.price)) AS psp
FROM bids b, asks a
WHERE (b.volume > 0.1 * (SELECT SUM(b1.volume) FROM bids b1))
  AND (a.volume > 0.1 * (SELECT SUM(a1.volume) FROM asks a1));

-- name: vwap
-- class: ordered
-- mode: both
SELECT SUM(b1.price * b1.volume) AS vwap
FROM bids b1
WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price);

-- name: vwap_most
-- class: ordered
-- mode: both
SELECT SUM(b1.price * b1.volume) AS vwap
FROM bids b1
WHERE 0.75 * (SELECT SUM(b3.volume) FROM bids b3) > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price);
