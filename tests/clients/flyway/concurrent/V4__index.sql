CREATE INDEX CONCURRENTLY entry_amount ON entry (amount);
