-- Databases and schemas
CREATE SCHEMA shop;
ALTER SCHEMA shop RENAME TO store;
COMMENT ON SCHEMA store IS 'what is sold';
SET search_path = store, public;

-- Types
CREATE TYPE mood AS ENUM ('sad', 'ok');
ALTER TYPE mood ADD VALUE 'happy' AFTER 'ok';
CREATE TYPE address AS (street text, city text);
ALTER TYPE address ADD ATTRIBUTE zip text;
CREATE DOMAIN price AS numeric(10, 2) CHECK (VALUE >= 0);

-- Sequences
CREATE SEQUENCE numbers INCREMENT BY 2 CACHE 1;
SELECT nextval('numbers');
ALTER SEQUENCE numbers RESTART WITH 100;

-- Tables
CREATE TABLE customer (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE,
  feels mood DEFAULT 'ok',
  home address,
  born date CHECK (born > '1900-01-01'),
  tags text[],
  extra jsonb,
  initial text GENERATED ALWAYS AS (left(name, 1)) STORED
);
CREATE TABLE purchase (
  id serial PRIMARY KEY,
  customer bigint REFERENCES customer ON DELETE CASCADE DEFERRABLE,
  paid price,
  at timestamptz DEFAULT now()
);
CREATE TABLE archive (LIKE purchase INCLUDING ALL);
CREATE TEMPORARY TABLE basket (item text, number int) ON COMMIT PRESERVE ROWS;
CREATE TABLE years AS SELECT id, extract(year FROM at) AS year FROM purchase;
ALTER TABLE customer ADD COLUMN phone text, ALTER COLUMN born SET DEFAULT '2000-01-01';
ALTER TABLE customer RENAME COLUMN phone TO telephone;
ALTER TABLE purchase ADD CONSTRAINT positive CHECK (paid > 0) NOT VALID;
ALTER TABLE purchase VALIDATE CONSTRAINT positive;
TRUNCATE years;

-- Indexes
CREATE INDEX purchase_customer ON purchase (customer, at DESC);
CREATE UNIQUE INDEX ON customer (lower(name)) WHERE telephone IS NULL;
ALTER INDEX purchase_customer RENAME TO purchase_by_customer;

-- Views
CREATE VIEW spent AS SELECT customer, sum(paid) AS paid FROM purchase GROUP BY customer;
CREATE MATERIALIZED VIEW best AS SELECT * FROM spent ORDER BY paid DESC LIMIT 10;
REFRESH MATERIALIZED VIEW best;
ALTER VIEW spent RENAME TO spending;

-- Functions
CREATE FUNCTION purchases (who bigint, since date DEFAULT '2000-01-01') RETURNS SETOF purchase
  LANGUAGE sql STABLE AS 'SELECT * FROM purchase WHERE customer = who AND at >= since';
SELECT paid FROM purchases (1, since => '2026-01-01');
ALTER FUNCTION purchases (bigint, date) RENAME TO purchases_since;
DROP FUNCTION purchases_since;

-- Extensions
CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA public;
CREATE EXTENSION pgcrypto;
SELECT uuid_generate_v5 (uuid_ns_url (), 'https://example.org'), digest ('abc', 'sha256');
ALTER EXTENSION pgcrypto UPDATE;
COMMENT ON EXTENSION pgcrypto IS 'digests';
DROP EXTENSION IF EXISTS pgcrypto, "uuid-ossp" CASCADE;

-- Changes
INSERT INTO customer (name, home) VALUES ('Ann', ROW ('1 High Street', 'York', 'YO1')) RETURNING id;
INSERT INTO customer (name) VALUES ('Ann') ON CONFLICT (name) DO UPDATE SET feels = 'happy';
INSERT INTO purchase (customer, paid) SELECT id, 12.50 FROM customer;
UPDATE purchase SET paid = paid * 2 FROM customer WHERE customer.id = purchase.customer;
UPDATE customer SET home.city = 'Leeds' WHERE name = 'Ann';
DELETE FROM purchase USING customer WHERE purchase.customer = customer.id AND paid > 1000;
MERGE INTO customer USING (VALUES ('Bob')) AS new (name) ON customer.name = new.name
  WHEN NOT MATCHED THEN INSERT (name) VALUES (new.name)
  WHEN MATCHED THEN DO NOTHING;

-- Queries
SELECT name, home, (home).city, tags[1], extra ->> 'size' FROM customer;
SELECT name FROM customer WHERE extra @? '$.sizes[*] ? (@ > 40)';
SELECT * FROM json_to_recordset('[{"a": 1}]') AS item (a int, b text);
SELECT customer, rank() OVER (ORDER BY sum(paid) DESC) FROM purchase GROUP BY customer;
SELECT customer, date_trunc('month', at), sum(paid) FROM purchase
  GROUP BY GROUPING SETS ((customer), (date_trunc('month', at)), ());
WITH gone AS (DELETE FROM purchase WHERE paid < 1 RETURNING *) INSERT INTO archive SELECT * FROM gone;
WITH RECURSIVE steps (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM steps WHERE n < 5) SELECT n FROM steps;
SELECT name FROM customer, LATERAL (SELECT max(paid) FROM purchase WHERE customer = customer.id) AS most (paid);
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY paid) FROM purchase;
SELECT name FROM customer EXCEPT SELECT name FROM customer WHERE feels = 'sad' ORDER BY name LIMIT 5;
EXPLAIN (ANALYZE, FORMAT json) SELECT * FROM customer WHERE id = 1;

-- Transactions
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT * FROM customer WHERE name = 'Ann' FOR UPDATE;
SAVEPOINT before;
ROLLBACK TO SAVEPOINT before;
SET CONSTRAINTS ALL DEFERRED;
COMMIT;

-- Cursors and prepared statements
BEGIN;
DECLARE rows CURSOR FOR SELECT id FROM customer ORDER BY id;
FETCH 10 FROM rows;
MOVE FIRST FROM rows;
CLOSE rows;
COMMIT;
PREPARE by_name (text) AS SELECT id FROM customer WHERE name = $1;
EXECUTE by_name ('Ann');
DEALLOCATE by_name;

-- Sessions
SET TIME ZONE 'Europe/Paris';
SHOW TimeZone;
LISTEN changes;
NOTIFY changes, 'of customers';
SELECT pg_try_advisory_lock(42);
ANALYZE customer;
COPY customer (name) TO STDOUT WITH (FORMAT csv, HEADER);
DISCARD TEMPORARY;

-- Removal
DROP MATERIALIZED VIEW best;
DROP TABLE purchase, archive, years CASCADE;
DROP SCHEMA store CASCADE;
