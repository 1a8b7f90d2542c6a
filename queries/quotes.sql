-- Every change of the touch: best bid and ask of a symbol and the volume at them, after each message that changes one.
CREATE STREAM quotes RETAIN 100000 ROWS RETAIN INTERVAL '10' MINUTE AS
SELECT t, symbol, bid_price, bid_volume, ask_price, ask_volume
FROM touches;
