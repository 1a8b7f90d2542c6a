-- name: distinct_one
SELECT DISTINCT broker_id FROM bids;

-- name: distinct_nullable
SELECT DISTINCT channel, returned FROM sales;

-- name: distinct_duplicates
SELECT DISTINCT store_id, minute, tag, weight FROM visits;

-- name: distinct_of_join
SELECT DISTINCT c.city, p.category FROM sales s JOIN customers c ON s.customer_id = c.id JOIN products p ON s.product_id = p.id;

-- name: distinct_floats
SELECT DISTINCT rating FROM sales;

-- name: distinct_then_count
SELECT COUNT(*) AS n FROM (SELECT DISTINCT broker_id, price FROM bids) x;

-- name: union_all
SELECT id, price FROM bids UNION ALL SELECT id, price FROM asks;

-- name: union_distinct
SELECT broker_id, price FROM bids UNION SELECT broker_id, price FROM asks;

-- name: union_scales
SELECT price FROM products UNION ALL SELECT tax FROM products UNION ALL SELECT area FROM stores;

-- name: union_nulls
SELECT city FROM customers UNION SELECT city FROM stores;

-- name: union_of_aggregates
SELECT 'bids' AS side, COUNT(*) AS n, SUM(volume) AS v FROM bids UNION ALL SELECT 'asks', COUNT(*), SUM(volume) FROM asks;

-- name: except_distinct
SELECT broker_id, price FROM bids EXCEPT SELECT broker_id, price FROM asks;

-- name: except_all
SELECT price FROM bids EXCEPT ALL SELECT price FROM asks;

-- name: except_nulls
SELECT customer_id FROM sales EXCEPT SELECT store_id FROM visits;

-- name: intersect_distinct
SELECT broker_id, price FROM bids INTERSECT SELECT broker_id, price FROM asks;

-- name: intersect_all
SELECT tag FROM visits INTERSECT ALL SELECT channel FROM sales;

-- name: intersect_nulls
SELECT city FROM customers INTERSECT SELECT city FROM stores;

-- name: set_operations_nested
(SELECT price FROM bids EXCEPT SELECT price FROM asks) UNION (SELECT price FROM asks EXCEPT SELECT price FROM bids);

-- name: set_operation_in_from
SELECT COUNT(*) AS n FROM (SELECT id FROM bids UNION SELECT id FROM asks) x;
