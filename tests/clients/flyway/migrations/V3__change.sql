ALTER TABLE account ADD COLUMN active boolean NOT NULL DEFAULT true;
ALTER TABLE account ALTER COLUMN email TYPE text;
ALTER TABLE entry RENAME COLUMN way TO side;
