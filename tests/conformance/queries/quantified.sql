-- name: above_any
-- class: ordered
SELECT id, price FROM bids WHERE price > ANY (SELECT price FROM asks);
-- name: below_some_of_a_group
-- class: ordered
SELECT id, price FROM bids b WHERE price <= SOME (SELECT price FROM asks a WHERE a.broker_id = b.broker_id);
-- name: above_all
-- class: ordered
SELECT id, price FROM bids WHERE price >= ALL (SELECT price FROM asks);
-- name: above_all_but_nulls
-- class: ordered
SELECT id FROM sales WHERE quantity < ALL (SELECT weight FROM visits);
-- name: as_values
-- class: ordered
-- mode: both
SELECT id, quantity > ANY (SELECT weight FROM visits) AS above_one, quantity > ALL (SELECT weight FROM visits) AS above_all FROM sales;
-- name: as_values_of_a_group
-- class: ordered
SELECT id, quantity <= ANY (SELECT weight FROM visits v WHERE v.store_id = s.store_id) AS a, quantity < ALL (SELECT weight FROM visits v WHERE v.store_id = s.store_id) AS b FROM sales s;
-- name: not_any
-- class: ordered
SELECT id FROM sales WHERE NOT (quantity < ANY (SELECT weight FROM visits));
-- name: equal_all_different_any
-- class: ordered
SELECT id, quantity = ALL (SELECT weight FROM visits WHERE weight > 1) AS same, quantity <> ANY (SELECT weight FROM visits) AS other FROM sales;
-- name: equal_any_different_all
-- class: multilinear
SELECT id FROM sales WHERE quantity = ANY (SELECT weight FROM visits) OR quantity <> ALL (SELECT weight FROM visits);
-- name: all_of_one_row
-- class: multilinear
SELECT id FROM bids WHERE price < ALL (SELECT AVG(price) FROM asks WHERE asks.broker_id = bids.broker_id);
-- name: all_of_groups
-- class: ordered
SELECT store_id, COUNT(*) AS n FROM sales GROUP BY store_id HAVING COUNT(*) >= ALL (SELECT COUNT(*) FROM sales GROUP BY store_id);
-- name: any_of_first_rows
-- class: ordered
SELECT id FROM bids WHERE price > ANY (SELECT DISTINCT price FROM asks ORDER BY price LIMIT 3);
-- name: any_of_a_union
-- class: ordered
SELECT id FROM bids WHERE price > ANY (SELECT price FROM asks UNION ALL SELECT volume FROM bids);
-- name: any_in_all
-- class: ordered
SELECT id FROM bids WHERE price > ALL (SELECT price FROM asks WHERE price > ANY (SELECT volume FROM bids));
-- name: any_string
-- class: ordered
SELECT id FROM sales WHERE channel > ANY (SELECT tag FROM visits);
-- name: all_decimals
-- class: ordered
SELECT id FROM sales WHERE amount >= ALL (SELECT price FROM products);
-- name: all_floats
-- class: ordered
SELECT id FROM sales WHERE rating >= ALL (SELECT rating FROM sales);
-- name: rows_in
-- class: multilinear
SELECT id FROM sales WHERE (store_id, quantity) IN (SELECT store_id, weight FROM visits);
-- name: rows_not_in
-- class: multilinear
SELECT id FROM bids WHERE (broker_id, price) NOT IN (SELECT broker_id, price FROM asks);
-- name: rows_not_in_nulls
-- class: reevaluated
SELECT id FROM sales WHERE (store_id, quantity) NOT IN (SELECT store_id, weight FROM visits);
-- name: rows_in_as_value
-- class: multilinear
SELECT id, (broker_id, price) IN (SELECT broker_id, price FROM asks) AS found FROM bids;
-- name: rows_in_as_value_nulls
-- class: reevaluated
SELECT id, (store_id, quantity) IN (SELECT store_id, weight FROM visits) AS found FROM sales;
