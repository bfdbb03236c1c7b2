CREATE FUNCTION doubled(n int) RETURNS int LANGUAGE sql AS $$ SELECT n * 2 $$;
DO $$ BEGIN PERFORM doubled(2); END $$;
