-- The touch: the best bid and the best ask of a symbol with their volumes, after each message that changes one of
-- these.
CREATE STREAM quotes RETAIN 100000 ROWS RETAIN INTERVAL '10' MINUTE AS
SELECT t, symbol, bid_price, bid_volume, ask_price, ask_volume
FROM touches;
