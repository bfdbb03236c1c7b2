// pgx, as its documentation shows it.
package main

import (
	"context"
	"math/big"
	"net/netip"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// with runs a check on a connection of its own.
func with(name string, action func(ctx context.Context, c *pgx.Conn)) {
	check(name, func(ctx context.Context) {
		c := must(pgx.Connect(ctx, url))
		defer c.Close(context.Background())
		action(ctx, c)
	})
}

func run(ctx context.Context, c *pgx.Conn, sql string, args ...any) int64 {
	return must(c.Exec(ctx, sql, args...)).RowsAffected()
}

func value[T any](ctx context.Context, c *pgx.Conn, sql string, args ...any) T {
	return must(pgx.CollectExactlyOneRow(must(c.Query(ctx, sql, args...)), pgx.RowTo[T]))
}

// same sends a value and receives it, in every way that pgx has.
func same[T any](ctx context.Context, c *pgx.Conn, kind string, values ...T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for _, one := range values {
			equal(value[T](ctx, c, "SELECT $1::"+kind, mode, one), one)
		}
	}
}

type person struct {
	ID   int32  `db:"id"`
	Name string `db:"name"`
	Age  *int32 `db:"age"`
}

func main() {
	with("creates, inserts, selects", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TABLE person (id serial PRIMARY KEY, name text NOT NULL, age int)")
		equal(run(ctx, c, "INSERT INTO person (name, age) VALUES ($1, $2), ($3, NULL)", "ann", 5,
			"bob"), int64(2))
		people := must(pgx.CollectRows(must(c.Query(ctx, "SELECT * FROM person ORDER BY id")),
			pgx.RowToStructByName[person]))
		age := int32(5)
		equal(people, []person{{1, "ann", &age}, {2, "bob", nil}})
		equal(run(ctx, c, "DELETE FROM person WHERE name = @name", pgx.NamedArgs{"name": "bob"}),
			int64(1))
		var none int
		equal(c.QueryRow(ctx, "SELECT id FROM person WHERE false").Scan(&none), pgx.ErrNoRows)
	})
	with("integers and floats", func(ctx context.Context, c *pgx.Conn) {
		same(ctx, c, "int2", int16(-32768))
		same(ctx, c, "int4", int32(2147483647))
		same(ctx, c, "int8", int64(-9223372036854775808))
		same(ctx, c, "float4", float32(0.25))
		same(ctx, c, "float8", 0.1)
		same(ctx, c, "bool", true, false)
	})
	with("texts and bytes", func(ctx context.Context, c *pgx.Conn) {
		same(ctx, c, "text", "", "✓ it's", strings.Repeat("x", 100000))
		same(ctx, c, "varchar", "v")
		same(ctx, c, "bytea", []byte{0, 255}, []byte{})
		same(ctx, c, "uuid", pgtype.UUID{Bytes: [16]byte{1, 2, 3}, Valid: true})
	})
	with("numerics", func(ctx context.Context, c *pgx.Conn) {
		same(ctx, c, "numeric", pgtype.Numeric{Int: big.NewInt(-12345), Exp: -2, Valid: true})
		equal(value[pgtype.Numeric](ctx, c, "SELECT 'NaN'::numeric").NaN, true)
	})
	with("dates and times", func(ctx context.Context, c *pgx.Conn) {
		same(ctx, c, "date", pgtype.Date{Time: time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
			Valid: true})
		same(ctx, c, "timestamp", pgtype.Timestamp{Time: time.Date(2024, 2, 29, 1, 2, 3, 4000,
			time.UTC), Valid: true})
		same(ctx, c, "time", pgtype.Time{Microseconds: 5, Valid: true})
		same(ctx, c, "interval", pgtype.Interval{Months: 1, Days: 2, Microseconds: 3, Valid: true})
		at := time.Date(2024, 2, 29, 1, 2, 3, 4000, time.UTC)
		equal(value[time.Time](ctx, c, "SELECT $1::timestamptz", at).Equal(at), true)
	})
	with("infinite dates", func(ctx context.Context, c *pgx.Conn) {
		same(ctx, c, "date", pgtype.Date{InfinityModifier: pgtype.Infinity, Valid: true})
		same(ctx, c, "timestamptz", pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity,
			Valid: true})
	})
	with("networks", func(ctx context.Context, c *pgx.Conn) {
		same(ctx, c, "inet", netip.MustParsePrefix("10.1.2.3/8"))
		same(ctx, c, "cidr", netip.MustParsePrefix("10.0.0.0/8"))
	})
	with("json", func(ctx context.Context, c *pgx.Conn) {
		for _, kind := range []string{"json", "jsonb"} {
			sent := map[string]any{"a": []any{1.0, nil, "✓"}}
			equal(value[map[string]any](ctx, c, "SELECT $1::"+kind, sent), sent)
		}
	})
	with("arrays", func(ctx context.Context, c *pgx.Conn) {
		same(ctx, c, "int[]", []int32{1, 2}, []int32{})
		same(ctx, c, "text[]", []string{"a,b", "\"", ""})
		same(ctx, c, "bool[]", []bool{true})
		one := "x"
		same(ctx, c, "text[]", []*string{&one, nil})
		equal(value[int64](ctx, c,
			"SELECT count(*) FROM generate_series(1, 9) g WHERE g = ANY($1)", []int32{1, 99}), int64(1))
	})
	with("nulls", func(ctx context.Context, c *pgx.Conn) {
		for _, kind := range strings.Fields("int4 text numeric timestamptz uuid jsonb bytea int[]") {
			equal(value[any](ctx, c, "SELECT $1::"+kind, nil), nil)
		}
	})
	with("enums, loaded", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TYPE mood AS ENUM ('sad', 'happy')")
		c.TypeMap().RegisterType(must(c.LoadType(ctx, "mood")))
		c.TypeMap().RegisterType(must(c.LoadType(ctx, "_mood")))
		same(ctx, c, "mood", "happy")
		same(ctx, c, "mood[]", []string{"sad", "happy"})
	})
	with("composite types, loaded", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TYPE pair AS (a int, b text)")
		c.TypeMap().RegisterType(must(c.LoadType(ctx, "pair")))
		var a int
		var b string
		try(c.QueryRow(ctx, "SELECT (1, 'x')::pair").Scan(pgtype.CompositeFields{&a, &b}))
		equal(b, "x")
	})
	with("domains and ranges, loaded", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
		c.TypeMap().RegisterType(must(c.LoadType(ctx, "positive")))
		same(ctx, c, "positive", int32(5))
		r := value[pgtype.Range[pgtype.Int4]](ctx, c, "SELECT int4range(1, 5)")
		equal(r.Upper.Int32, int32(5))
	})
	with("several types loaded at once", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TYPE size AS ENUM ('s', 'l')")
		equal(len(must(c.LoadTypes(ctx, []string{"size", "_size"}))) >= 2, true)
	})
	with("records", func(ctx context.Context, c *pgx.Conn) {
		rows := must(c.Query(ctx, "SELECT row(1, 'x'::text)"))
		defer rows.Close()
		equal(rows.Next(), true)
		equal(must(rows.Values()), []any{[]any{int32(1), "x"}})
	})
	with("prepared statements", func(ctx context.Context, c *pgx.Conn) {
		s := must(c.Prepare(ctx, "add", "SELECT $1::int4 + $2::int8 AS total"))
		equal(s.ParamOIDs, []uint32{23, 20})
		equal(s.Fields[0].Name, "total")
		equal(value[int64](ctx, c, "add", 1, 2), int64(3))
		try(c.Deallocate(ctx, "add"))
		raises("26000", c.QueryRow(ctx, "EXECUTE add(1, 2)").Scan(nil))
	})
	with("a statement after a change of its table", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TABLE changing (id int)")
		run(ctx, c, "INSERT INTO changing VALUES (1)")
		count := func() int {
			rows := must(c.Query(ctx, "SELECT * FROM changing"))
			defer rows.Close()
			for rows.Next() {
				return len(must(rows.Values()))
			}
			try(rows.Err())
			return 0
		}
		equal(count(), 1)
		other := must(pgx.Connect(ctx, url))
		defer other.Close(ctx)
		run(ctx, other, "ALTER TABLE changing ADD COLUMN v text")
		rows := must(c.Query(ctx, "SELECT * FROM changing"))
		rows.Close()
		raises("0A000", rows.Err())
		equal(count(), 2)
	})
	with("batches", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TABLE batched (id int PRIMARY KEY)")
		batch := &pgx.Batch{}
		for i := range 100 {
			batch.Queue("INSERT INTO batched VALUES ($1)", i)
		}
		var count int
		batch.Queue("SELECT count(*) FROM batched").QueryRow(
			func(row pgx.Row) error { return row.Scan(&count) })
		try(c.SendBatch(ctx, batch).Close())
		equal(count, 100)
		batch = &pgx.Batch{}
		batch.Queue("INSERT INTO batched VALUES (1000)")
		batch.Queue("INSERT INTO batched VALUES (1)")
		raises("23505", c.SendBatch(ctx, batch).Close())
		equal(value[int64](ctx, c, "SELECT count(*) FROM batched"), int64(100))
	})
	with("copy from", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c,
			"CREATE TABLE copied (id int, v text, at timestamptz, n numeric, tags text[], j jsonb)")
		at := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
		rows := [][]any{}
		for i := range 500 {
			rows = append(rows, []any{i, "v", at, "1.5", []string{"a"}, map[string]int{"k": i}})
		}
		names := []string{"id", "v", "at", "n", "tags", "j"}
		equal(must(c.CopyFrom(ctx, pgx.Identifier{"copied"}, names, pgx.CopyFromRows(rows))),
			int64(500))
		equal(value[int64](ctx, c, "SELECT sum(id) FROM copied"), int64(124750))
	})
	with("copy from and to in text", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TABLE texts (id int, v text)")
		must(c.PgConn().CopyFrom(ctx, strings.NewReader("1\ta\n2\t\\N\n"), "COPY texts FROM STDIN"))
		var out strings.Builder
		must(c.PgConn().CopyTo(ctx, &out, "COPY texts TO STDOUT (FORMAT csv, NULL 'none')"))
		equal(out.String(), "1,a\n2,none\n")
	})
	with("transactions and savepoints", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TABLE nested (id int PRIMARY KEY)")
		try(pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			must(tx.Exec(ctx, "INSERT INTO nested VALUES (1)"))
			raises("23505", pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, "INSERT INTO nested VALUES (1)")
				return err
			}))
			must(tx.Exec(ctx, "INSERT INTO nested VALUES (2)"))
			return nil
		}))
		equal(value[int64](ctx, c, "SELECT count(*) FROM nested"), int64(2))
	})
	with("isolation levels", func(ctx context.Context, c *pgx.Conn) {
		for _, level := range []pgx.TxIsoLevel{pgx.Serializable, pgx.RepeatableRead,
			pgx.ReadCommitted} {
			tx := must(c.BeginTx(ctx, pgx.TxOptions{IsoLevel: level}))
			var shown string
			try(tx.QueryRow(ctx, "SHOW transaction_isolation").Scan(&shown))
			try(tx.Rollback(ctx))
			equal(shown, string(level))
		}
	})
	with("read only and deferrable transactions", func(ctx context.Context, c *pgx.Conn) {
		tx := must(c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable,
			AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable}))
		_, err := tx.Exec(ctx, "CREATE TABLE forbidden (id int)")
		raises("25006", err)
	})
	with("fields of errors", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c,
			"CREATE TABLE strict (id int PRIMARY KEY, n int CONSTRAINT n_positive CHECK (n > 0))")
		run(ctx, c, "INSERT INTO strict VALUES (1, 1)")
		_, err := c.Exec(ctx, "INSERT INTO strict VALUES (1, 1)")
		told := raises("23505", err)
		equal([]string{told.ConstraintName, told.TableName, told.SchemaName},
			[]string{"strict_pkey", "strict", "public"})
		_, err = c.Exec(ctx, "SELECT 1 + missing")
		equal(raises("42703", err).Position, int32(12))
	})
	with("a context that ends cancels the statement", func(ctx context.Context, c *pgx.Conn) {
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		_, err := c.Exec(short,
			"SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b")
		equal(err != nil, true)
	})
	with("listen and notify", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "LISTEN news")
		other := must(pgx.Connect(ctx, url))
		defer other.Close(ctx)
		run(ctx, other, "SELECT pg_notify('news', 'hello')")
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		equal(must(c.WaitForNotification(short)).Payload, "hello")
	})
	with("row locks", func(ctx context.Context, c *pgx.Conn) {
		run(ctx, c, "CREATE TABLE locked (id int PRIMARY KEY)")
		run(ctx, c, "INSERT INTO locked VALUES (1), (2)")
		tx := must(c.Begin(ctx))
		must(tx.Exec(ctx, "SELECT * FROM locked WHERE id = 1 FOR UPDATE"))
		other := must(pgx.Connect(ctx, url))
		defer other.Close(ctx)
		equal(value[int32](ctx, other, "SELECT id FROM locked FOR UPDATE SKIP LOCKED"), int32(2))
		_, err := other.Exec(ctx, "SELECT id FROM locked FOR UPDATE NOWAIT")
		raises("55P03", err)
		try(tx.Commit(ctx))
	})
	check("a pool", func(ctx context.Context) {
		pool := must(pgxpool.New(ctx, url))
		defer pool.Close()
		results := make(chan int, 50)
		for i := range 50 {
			go func() {
				var n int
				if pool.QueryRow(ctx, "SELECT $1::int", i).Scan(&n) != nil {
					n = -1000
				}
				results <- n
			}()
		}
		sum := 0
		for range 50 {
			sum += <-results
		}
		equal(sum, 1225)
	})
}
