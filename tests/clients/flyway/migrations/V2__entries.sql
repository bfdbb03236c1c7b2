CREATE TYPE direction AS ENUM ('in', 'out');
CREATE TABLE entry (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account_id bigint NOT NULL REFERENCES account ON DELETE CASCADE,
  way direction NOT NULL,
  amount numeric(12, 2) NOT NULL
);
CREATE INDEX entry_account ON entry (account_id, id DESC);
INSERT INTO entry (account_id, way, amount) SELECT id, 'in', 10 FROM account;
UPDATE account a SET balance = (SELECT sum(amount) FROM entry e WHERE e.account_id = a.id);
