-- name: top_prices
-- class: ordered
SELECT price, id, broker_id, t, volume FROM bids ORDER BY price DESC, id, broker_id, t, volume LIMIT 3;

-- name: top_with_offset
-- class: ordered
SELECT price, id, t FROM bids ORDER BY price, id, t LIMIT 2 OFFSET 1;

-- name: top_groups
-- class: ordered
SELECT broker_id, SUM(volume) AS v FROM bids GROUP BY broker_id ORDER BY v DESC, broker_id LIMIT 2;

-- name: top_nulls_first
-- class: ordered
SELECT quantity, id FROM sales ORDER BY quantity NULLS FIRST, id LIMIT 3;

-- name: top_nulls_last_descending
-- class: ordered
SELECT channel, quantity, id FROM sales ORDER BY channel DESC NULLS LAST, quantity DESC NULLS FIRST, id LIMIT 4;

-- name: top_of_join
-- class: ordered
SELECT c.name, s.amount FROM sales s JOIN customers c ON s.customer_id = c.id ORDER BY s.amount DESC, c.name LIMIT 3;

-- name: top_duplicates
-- class: ordered
SELECT tag, minute FROM visits ORDER BY tag, minute LIMIT 4;

-- name: top_in_from
-- class: ordered
SELECT SUM(volume) AS v FROM (SELECT price, volume, id FROM asks ORDER BY price, volume, id LIMIT 2) x;

-- name: top_dates
-- class: ordered
SELECT sold_at, id FROM sales ORDER BY sold_at DESC, id LIMIT 2;

-- name: limit_zero
-- class: ordered
SELECT id FROM bids ORDER BY id LIMIT 0;

-- name: order_without_limit
-- class: linear
SELECT id, price FROM bids ORDER BY price DESC, id;

-- name: top_of_distinct
-- class: ordered
SELECT DISTINCT price FROM bids ORDER BY price DESC LIMIT 2;

-- name: top_of_union
-- class: ordered
SELECT price, id FROM bids UNION ALL SELECT price, id FROM asks ORDER BY price, id LIMIT 3;
