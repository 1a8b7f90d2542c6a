-- The order books of a trace in DBToaster's format (t,id,action,volume,price), a relation for each side. The trace in
-- this folder is made up; a file of the same name in --data-dir takes precedence.
CREATE STREAM bids(t FLOAT, id INT, broker_id INT, volume FLOAT, price FLOAT)
  FROM FILE 'trace-5000.csv' LINE DELIMITED
  orderbook (book := 'bids', brokers := '10', deterministic := 'yes');

CREATE STREAM asks(t FLOAT, id INT, broker_id INT, volume FLOAT, price FLOAT)
  FROM FILE 'trace-5000.csv' LINE DELIMITED
  orderbook (book := 'asks', brokers := '10', deterministic := 'yes');
