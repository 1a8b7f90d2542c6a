-- name: distinct_one
-- class: linear
SELECT DISTINCT broker_id FROM bids;

-- name: distinct_nullable
-- class: linear
SELECT DISTINCT channel, returned FROM sales;

-- name: distinct_duplicates
-- class: linear
SELECT DISTINCT store_id, minute, tag, weight FROM visits;

-- name: distinct_of_join
-- class: multilinear
SELECT DISTINCT c.city, p.category FROM sales s JOIN customers c ON s.customer_id = c.id JOIN products p ON s.product_id = p.id;

-- name: distinct_floats
-- class: linear
SELECT DISTINCT rating FROM sales;

-- name: distinct_then_count
-- class: linear
SELECT COUNT(*) AS n FROM (SELECT DISTINCT broker_id, price FROM bids) x;

-- name: union_all
-- class: linear
SELECT id, price FROM bids UNION ALL SELECT id, price FROM asks;

-- name: union_distinct
-- class: linear
SELECT broker_id, price FROM bids UNION SELECT broker_id, price FROM asks;

-- name: union_scales
-- class: linear
SELECT price FROM products UNION ALL SELECT tax FROM products UNION ALL SELECT area FROM stores;

-- name: union_nulls
-- class: linear
SELECT city FROM customers UNION SELECT city FROM stores;

-- name: union_of_aggregates
-- class: linear
SELECT 'bids' AS side, COUNT(*) AS n, SUM(volume) AS v FROM bids UNION ALL SELECT 'asks', COUNT(*), SUM(volume) FROM asks;

-- name: except_distinct
-- class: multilinear
SELECT broker_id, price FROM bids EXCEPT SELECT broker_id, price FROM asks;

-- name: except_all
-- class: multilinear
SELECT price FROM bids EXCEPT ALL SELECT price FROM asks;

-- name: except_nulls
-- class: multilinear
SELECT customer_id FROM sales EXCEPT SELECT store_id FROM visits;

-- name: intersect_distinct
-- class: multilinear
SELECT broker_id, price FROM bids INTERSECT SELECT broker_id, price FROM asks;

-- name: intersect_all
-- class: multilinear
SELECT tag FROM visits INTERSECT ALL SELECT channel FROM sales;

-- name: intersect_nulls
-- class: multilinear
SELECT city FROM customers INTERSECT SELECT city FROM stores;

-- name: set_operations_nested
-- class: multilinear
(SELECT price FROM bids EXCEPT SELECT price FROM asks) UNION (SELECT price FROM asks EXCEPT SELECT price FROM bids);

-- name: set_operation_in_from
-- class: linear
SELECT COUNT(*) AS n FROM (SELECT id FROM bids UNION SELECT id FROM asks) x;
