CREATE TABLE account (
  id bigserial PRIMARY KEY,
  email varchar(100) NOT NULL UNIQUE,
  balance numeric(12, 2) NOT NULL DEFAULT 0 CHECK (balance >= 0),
  created timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE account IS 'who pays; it''s a comment with a ;';
INSERT INTO account (email) VALUES ('ann@example.org'), ('bob@example.org');
