CREATE OR REPLACE VIEW totals AS
  SELECT a.email, sum(e.amount) AS total FROM account a JOIN entry e ON e.account_id = a.id
  GROUP BY a.email;
