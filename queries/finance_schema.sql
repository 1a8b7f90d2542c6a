-- The order books of a trace in DBToaster's format (t,id,action,volume,price), one relation a side. The trace beside this
-- file is made up; a recorded one of that name in --data-dir comes before it.
CREATE STREAM bids(t FLOAT, id INT, broker_id INT, volume FLOAT, price FLOAT)
  FROM FILE 'trace-5000.csv' LINE DELIMITED
  orderbook (book := 'bids', brokers := '10', deterministic := 'yes');

CREATE STREAM asks(t FLOAT, id INT, broker_id INT, volume FLOAT, price FLOAT)
  FROM FILE 'trace-5000.csv' LINE DELIMITED
  orderbook (book := 'asks', brokers := '10', deterministic := 'yes');
