-- name: alone
-- class: linear
SELECT * FROM (VALUES (1, 'x'), (2, 'y'), (NULL, NULL)) AS v(a, b);
-- name: without_names
-- class: linear
SELECT * FROM (VALUES (1), (2.5));
-- name: joined
-- class: multilinear
-- mode: both
SELECT v.name, COUNT(*) AS n, SUM(s.quantity) AS total FROM (VALUES (1, 'one'), (2, 'two')) AS v(id, name) JOIN sales s ON s.store_id = v.id GROUP BY v.name;
-- name: outer_joined
-- class: multilinear
SELECT v.id, s.id AS sale FROM (VALUES (1), (2), (3)) AS v(id) LEFT JOIN sales s ON s.store_id = v.id;
-- name: with_table
-- class: multilinear
WITH wanted(id) AS (VALUES (1), (2)) SELECT sales.id FROM sales JOIN wanted ON store_id = wanted.id;
-- name: in_values
-- class: multilinear
SELECT id FROM sales WHERE store_id IN (VALUES (1), (2)) AND quantity NOT IN (VALUES (2), (3));
-- name: rows_in_values
-- class: multilinear
SELECT id FROM sales WHERE (store_id, product_id) IN (VALUES (1, 2), (2, 2));
-- name: any_of_values
-- class: ordered
SELECT id FROM bids WHERE price > ANY (VALUES (1), (2)) AND price < ALL (VALUES (4), (5));
-- name: counted_for_each
-- class: multilinear
SELECT v.id, (SELECT COUNT(*) FROM sales s WHERE s.store_id = v.id) AS n FROM (VALUES (1), (2), (3)) AS v(id);
-- name: missing
-- class: multilinear
SELECT id FROM (VALUES (1), (2), (3)) v(id) EXCEPT SELECT store_id FROM sales;
-- name: select_without_from
-- class: linear
SELECT 1 AS one UNION ALL SELECT id FROM sales;
-- name: select_without_from_if_any
-- class: multilinear
SELECT 1 AS one WHERE EXISTS (SELECT 1 FROM sales);
