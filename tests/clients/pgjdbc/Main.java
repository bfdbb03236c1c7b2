import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PGInterval;
import org.postgresql.util.PGobject;
import org.postgresql.util.PSQLException;

/** pgjdbc: statements, types, metadata. */
final class Main {
  /** Runs a statement. */
  static void run(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement()) {
      s.execute(sql);
    }
  }

  /** Returns the rows of a query, as lists of objects. */
  static List<List<Object>> rows(Connection c, String sql, Object... values) throws SQLException {
    try (PreparedStatement s = c.prepareStatement(sql)) {
      for (int i = 0; i < values.length; i++) {
        s.setObject(i + 1, values[i]);
      }
      return rows(s.executeQuery());
    }
  }

  static List<List<Object>> rows(ResultSet set) throws SQLException {
    List<List<Object>> rows = new ArrayList<>();
    while (set.next()) {
      List<Object> row = new ArrayList<>();
      for (int i = 1; i <= set.getMetaData().getColumnCount(); i++) {
        row.add(set.getObject(i));
      }
      rows.add(row);
    }
    return rows;
  }

  /** Returns a column of a result. */
  static List<Object> column(ResultSet set, String name) throws SQLException {
    List<Object> values = new ArrayList<>();
    while (set.next()) {
      values.add(set.getObject(name));
    }
    return values;
  }

  static Connection open(String options) throws SQLException {
    return DriverManager.getConnection(Checks.URL + options);
  }

  static PGobject object(String type, String value) throws SQLException {
    PGobject object = new PGobject();
    object.setType(type);
    object.setValue(value);
    return object;
  }

  /** Creates the tables that the checks of metadata describe. */
  static DatabaseMetaData described(Connection c, String name) throws SQLException {
    run(c, "CREATE TABLE " + name + "_owner (id int PRIMARY KEY)");
    run(
        c,
        "CREATE TABLE "
            + name
            + " (id serial, name varchar(40) DEFAULT 'x' NOT NULL, price numeric(10, 2), at"
            + " timestamp with time zone, tags text[], owner int, big bigint GENERATED ALWAYS AS"
            + " IDENTITY, CONSTRAINT "
            + name
            + "_pk PRIMARY KEY (id), CONSTRAINT "
            + name
            + "_once UNIQUE (name, price),"
            + " CONSTRAINT "
            + name
            + "_fk FOREIGN KEY (owner) REFERENCES "
            + name
            + "_owner (id) ON DELETE CASCADE)");
    run(c, "CREATE INDEX " + name + "_at ON " + name + " (at DESC, name)");
    run(c, "COMMENT ON TABLE " + name + " IS 'a table'");
    return c.getMetaData();
  }

  public static void main(String[] args) {
    Checks.of(() -> open(""))
        .check(
            "connects",
            c -> {
              DatabaseMetaData m = c.getMetaData();
              Checks.equal(m.getDatabaseProductName(), "PostgreSQL");
              if (m.getDatabaseMajorVersion() < 14)
                throw new AssertionError(m.getDatabaseProductVersion());
              Checks.equal(c.isValid(5), true);
              Checks.equal(c.getCatalog(), Checks.DATABASE);
              Checks.equal(c.getSchema(), "public");
            })
        .check(
            "creates, inserts, selects",
            c -> {
              run(c, "CREATE TABLE crud (id int PRIMARY KEY, name text, n int)");
              try (PreparedStatement s = c.prepareStatement("INSERT INTO crud VALUES (?, ?, ?)")) {
                s.setInt(1, 1);
                s.setString(2, "ann");
                s.setNull(3, Types.INTEGER);
                Checks.equal(s.executeUpdate(), 1);
              }
              Checks.equal(
                  rows(c, "SELECT name, n FROM crud WHERE id = ?", 1).get(0).get(0), "ann");
              Checks.equal(rows(c, "UPDATE crud SET n = 5 RETURNING n"), List.of(List.of(5)));
            })
        .check(
            "generated keys",
            c -> {
              run(c, "CREATE TABLE generated (id bigserial PRIMARY KEY, v text DEFAULT 'd')");
              String insert = "INSERT INTO generated (v) VALUES ('a'), (DEFAULT)";
              try (Statement s = c.createStatement()) {
                s.executeUpdate(insert, Statement.RETURN_GENERATED_KEYS);
                Checks.equal(column(s.getGeneratedKeys(), "id"), List.of(1L, 2L));
                s.executeUpdate(insert, new String[] {"id", "v"});
                Checks.equal(
                    rows(s.getGeneratedKeys()), List.of(List.of(3L, "a"), List.of(4L, "d")));
              }
            })
        .check(
            "types of java.sql",
            c -> {
              run(
                  c,
                  "CREATE TABLE kinds (a smallint, b int, c bigint, d numeric(12,3), e real, f"
                      + " float8, g boolean, h text, i bytea, j date, k time, l timestamp, m"
                      + " timestamptz, n uuid, o char(3))");
              OffsetDateTime at = OffsetDateTime.of(2024, 2, 29, 1, 2, 3, 4000, ZoneOffset.UTC);
              UUID id = UUID.randomUUID();
              try (PreparedStatement s =
                  c.prepareStatement("INSERT INTO kinds VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)")) {
                s.setShort(1, (short) 7);
                s.setInt(2, 8);
                s.setLong(3, 1L << 40);
                s.setBigDecimal(4, new BigDecimal("1.250"));
                s.setFloat(5, 0.25f);
                s.setDouble(6, 0.1);
                s.setBoolean(7, true);
                s.setString(8, "✓");
                s.setBytes(9, new byte[] {0, -1});
                s.setObject(10, LocalDate.of(2024, 2, 29));
                s.setObject(11, LocalTime.of(1, 2, 3));
                s.setObject(12, LocalDateTime.of(2024, 1, 2, 3, 4, 5));
                s.setObject(13, at);
                s.setObject(14, id);
                s.setString(15, "abc");
                s.executeUpdate();
              }
              try (PreparedStatement s = c.prepareStatement("SELECT * FROM kinds")) {
                // The driver asks for binary results after some executions.
                for (int i = 0; i < 8; i++) {
                  ResultSet r = s.executeQuery();
                  r.next();
                  Checks.equal(r.getShort(1), (short) 7);
                  Checks.equal(r.getInt(2), 8);
                  Checks.equal(r.getLong(3), 1L << 40);
                  Checks.equal(r.getBigDecimal(4), new BigDecimal("1.250"));
                  Checks.equal(r.getFloat(5), 0.25f);
                  Checks.equal(r.getDouble(6), 0.1);
                  Checks.equal(r.getBoolean(7), true);
                  Checks.equal(r.getString(8), "✓");
                  Checks.equal(r.getBytes(9), new byte[] {0, -1});
                  Checks.equal(r.getObject(10, LocalDate.class), LocalDate.of(2024, 2, 29));
                  Checks.equal(r.getObject(11, LocalTime.class), LocalTime.of(1, 2, 3));
                  Checks.equal(
                      r.getObject(12, LocalDateTime.class), LocalDateTime.of(2024, 1, 2, 3, 4, 5));
                  Checks.equal(r.getObject(13, OffsetDateTime.class).toInstant(), at.toInstant());
                  Checks.equal(r.getObject(14), id);
                  Checks.equal(r.getString(15), "abc");
                }
              }
            })
        .check(
            "dates as java.sql.Date and Timestamp",
            c -> {
              List<Object> row =
                  rows(
                          c,
                          "SELECT ?::date, ?::timestamptz",
                          Date.valueOf("2024-02-29"),
                          java.sql.Timestamp.from(Instant.EPOCH))
                      .get(0);
              Checks.equal(row.get(0), Date.valueOf("2024-02-29"));
              Checks.equal(((java.sql.Timestamp) row.get(1)).toInstant(), Instant.EPOCH);
            })
        .check(
            "the time zone of the client",
            c -> {
              var before = java.util.TimeZone.getDefault();
              java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("Europe/Berlin"));
              try (Connection other = open("")) {
                Checks.equal(rows(other, "SHOW TimeZone").get(0).get(0), "Europe/Berlin");
              } finally {
                java.util.TimeZone.setDefault(before);
              }
            })
        .check(
            "arrays",
            c -> {
              try (PreparedStatement s = c.prepareStatement("SELECT ?::int[], ?::text[]")) {
                for (int i = 0; i < 8; i++) {
                  s.setArray(1, c.createArrayOf("int4", new Integer[] {1, null, 3}));
                  s.setObject(2, new String[] {"a,b", null, "\""});
                  ResultSet r = s.executeQuery();
                  r.next();
                  Checks.equal(r.getArray(1).getArray(), new Integer[] {1, null, 3});
                  Checks.equal(r.getArray(2).getArray(), new String[] {"a,b", null, "\""});
                }
              }
              Checks.equal(
                  rows(
                      c,
                      "SELECT g FROM generate_series(1, 5) g WHERE g = ANY(?)",
                      (Object) c.createArrayOf("int4", new Object[] {2, 9})),
                  List.of(List.of(2)));
            })
        .check(
            "json, intervals and enums",
            c -> {
              run(c, "CREATE TYPE mood AS ENUM ('sad', 'happy')");
              run(c, "CREATE TABLE objects (j jsonb, i interval, m mood)");
              try (PreparedStatement s =
                  c.prepareStatement("INSERT INTO objects VALUES (?, ?, ?)")) {
                s.setObject(1, object("jsonb", "{\"a\": 1}"));
                s.setObject(2, new PGInterval(1, 2, 3, 4, 5, 6.5));
                s.setObject(3, "happy", Types.OTHER);
                s.executeUpdate();
              }
              List<Object> row = rows(c, "SELECT * FROM objects").get(0);
              Checks.equal(((PGobject) row.get(0)).getValue(), "{\"a\": 1}");
              Checks.equal(row.get(1), new PGInterval(1, 2, 3, 4, 5, 6.5));
              Checks.equal(row.get(2), "happy");
            })
        .check(
            "composite and geometric types",
            c -> {
              run(c, "CREATE TYPE pair AS (a int, b text)");
              Checks.equal(
                  ((PGobject) rows(c, "SELECT (1, 'x')::pair").get(0).get(0)).getValue(), "(1,x)");
            })
        .check(
            "batches",
            c -> {
              run(c, "CREATE TABLE batch (id int PRIMARY KEY)");
              try (PreparedStatement s = c.prepareStatement("INSERT INTO batch VALUES (?)")) {
                for (int i = 0; i < 300; i++) {
                  s.setInt(1, i);
                  s.addBatch();
                }
                Checks.equal(s.executeBatch().length, 300);
                s.setInt(1, 1000);
                s.addBatch();
                s.setInt(1, 1);
                s.addBatch();
                BatchUpdateException wrong =
                    (BatchUpdateException) Checks.raises("23505", x -> s.executeBatch());
                Checks.equal(wrong.getUpdateCounts().length, 2);
              }
              Checks.equal(rows(c, "SELECT count(*) FROM batch"), List.of(List.of(300L)));
            })
        .check(
            "batches with rewritten inserts",
            c -> {
              run(c, "CREATE TABLE rewritten (id int PRIMARY KEY, v text)");
              try (Connection r = open("&reWriteBatchedInserts=true");
                  PreparedStatement s = r.prepareStatement("INSERT INTO rewritten VALUES (?, ?)")) {
                for (int i = 0; i < 1000; i++) {
                  s.setInt(1, i);
                  s.setString(2, "v" + i);
                  s.addBatch();
                }
                s.executeBatch();
              }
              Checks.equal(rows(c, "SELECT count(*) FROM rewritten"), List.of(List.of(1000L)));
            })
        .check(
            "transactions and savepoints",
            c -> {
              run(c, "CREATE TABLE saved (id int PRIMARY KEY)");
              c.setAutoCommit(false);
              run(c, "INSERT INTO saved VALUES (1)");
              var point = c.setSavepoint("point");
              Checks.raises("23505", x -> run(c, "INSERT INTO saved VALUES (1)"));
              Checks.raises("25P02", x -> run(c, "SELECT 1"));
              c.rollback(point);
              run(c, "INSERT INTO saved VALUES (2)");
              c.commit();
              run(c, "DELETE FROM saved");
              c.rollback();
              Checks.equal(rows(c, "SELECT count(*) FROM saved"), List.of(List.of(2L)));
              c.rollback();
            })
        .check(
            "savepoints for each statement",
            c -> {
              run(c, "CREATE TABLE autosaved (id int PRIMARY KEY)");
              try (Connection a = open("&autosave=always")) {
                a.setAutoCommit(false);
                run(a, "INSERT INTO autosaved VALUES (1)");
                Checks.raises("23505", x -> run(a, "INSERT INTO autosaved VALUES (1)"));
                run(a, "INSERT INTO autosaved VALUES (2)");
                a.commit();
              }
              Checks.equal(rows(c, "SELECT count(*) FROM autosaved"), List.of(List.of(2L)));
            })
        .check(
            "isolation levels and read only",
            c -> {
              for (int level :
                  new int[] {
                    Connection.TRANSACTION_READ_COMMITTED,
                    Connection.TRANSACTION_REPEATABLE_READ,
                    Connection.TRANSACTION_SERIALIZABLE
                  }) {
                c.setTransactionIsolation(level);
                Checks.equal(c.getTransactionIsolation(), level);
              }
              c.setReadOnly(true);
              c.setAutoCommit(false);
              Checks.raises("25006", x -> run(c, "CREATE TABLE forbidden (id int)"));
              c.rollback();
            })
        .check(
            "errors",
            c -> {
              run(
                  c,
                  "CREATE TABLE strict (id int PRIMARY KEY, n int CONSTRAINT n_positive CHECK (n >"
                      + " 0))");
              run(c, "INSERT INTO strict VALUES (1, 1)");
              var error =
                  ((PSQLException)
                          Checks.raises("23505", x -> run(c, "INSERT INTO strict VALUES (1, 1)")))
                      .getServerErrorMessage();
              Checks.equal(error.getConstraint(), "strict_pkey");
              Checks.equal(error.getTable(), "strict");
              Checks.equal(error.getDetail(), "Key (id)=(1) already exists.");
              error =
                  ((PSQLException)
                          Checks.raises("23514", x -> run(c, "INSERT INTO strict VALUES (2, 0)")))
                      .getServerErrorMessage();
              Checks.equal(error.getConstraint(), "n_positive");
              Checks.raises("42P01", x -> run(c, "SELECT * FROM missing"));
            })
        .check(
            "cursors by fetch size",
            c -> {
              c.setAutoCommit(false);
              try (Statement s = c.createStatement()) {
                s.setFetchSize(50);
                ResultSet r = s.executeQuery("SELECT generate_series(1, 1000)");
                int sum = 0;
                while (r.next()) sum += r.getInt(1);
                Checks.equal(sum, 500500);
              }
              c.rollback();
            })
        .check(
            "scrollable and updatable results",
            c -> {
              run(c, "CREATE TABLE updatable (id int PRIMARY KEY, v text)");
              run(c, "INSERT INTO updatable VALUES (1, 'a'), (2, 'b')");
              try (Statement s =
                  c.createStatement(
                      ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
                ResultSet r = s.executeQuery("SELECT id, v FROM updatable ORDER BY id");
                Checks.equal(r.last(), true);
                Checks.equal(r.getRow(), 2);
                r.updateString("v", "changed");
                r.updateRow();
                r.moveToInsertRow();
                r.updateInt("id", 3);
                r.updateString("v", "c");
                r.insertRow();
                r.absolute(1);
                r.deleteRow();
              }
              Checks.equal(
                  rows(c, "SELECT v FROM updatable ORDER BY id"),
                  List.of(List.of("changed"), List.of("c")));
            })
        .check(
            "a statement after a change of its table",
            c -> {
              run(c, "CREATE TABLE changing (id int)");
              run(c, "INSERT INTO changing VALUES (1)");
              try (PreparedStatement s = c.prepareStatement("SELECT * FROM changing");
                  Connection other = open("")) {
                for (int i = 0; i < 8; i++) rows(s.executeQuery());
                run(other, "ALTER TABLE changing ADD COLUMN v text DEFAULT 'x'");
                Checks.equal(rows(s.executeQuery()), List.of(List.of(1, "x")));
              }
            })
        .check(
            "a query timeout",
            c -> {
              try (Statement s = c.createStatement()) {
                s.setQueryTimeout(1);
                Checks.raises(
                    "57014",
                    x ->
                        s.execute(
                            "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1,"
                                + " 100000) b"));
              }
            })
        .check(
            "copy in and out",
            c -> {
              run(c, "CREATE TABLE copied (id int, v text)");
              CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
              Checks.equal(
                  copy.copyIn(
                      "COPY copied FROM STDIN (FORMAT csv)", new StringReader("1,a\n2,\"b,c\"\n")),
                  2L);
              StringWriter out = new StringWriter();
              copy.copyOut(
                  "COPY (SELECT * FROM copied ORDER BY id) TO STDOUT (FORMAT csv, FORCE_QUOTE *)",
                  out);
              Checks.equal(out.toString(), "\"1\",\"a\"\n\"2\",\"b,c\"\n");
            })
        .check(
            "listen and notify",
            c -> {
              run(c, "LISTEN news");
              try (Connection other = open("")) {
                run(other, "NOTIFY news, 'hello'");
              }
              Checks.equal(
                  c.unwrap(PGConnection.class).getNotifications(5000)[0].getParameter(), "hello");
            })
        .check(
            "warnings",
            c -> {
              try (Statement s = c.createStatement()) {
                s.execute("DROP TABLE IF EXISTS not_there");
                if (s.getWarnings() == null) throw new AssertionError("no warning");
                Checks.equal(
                    s.getWarnings().getMessage(), "table \"not_there\" does not exist, skipping");
              }
            })
        .check(
            "calls of functions",
            c -> {
              try (var call = c.prepareCall("{? = call upper(?)}")) {
                call.registerOutParameter(1, Types.VARCHAR);
                call.setString(2, "abc");
                call.execute();
                Checks.equal(call.getString(1), "ABC");
              }
              Checks.equal(
                  rows(c, "SELECT {fn concat('a', 'b')}, {d '2024-01-02'}").get(0).get(0), "ab");
            })
        .check(
            "large objects",
            c -> {
              c.setAutoCommit(false);
              var api = c.unwrap(PGConnection.class).getLargeObjectAPI();
              long id = api.createLO();
              try (var object = api.open(id)) {
                object.write(new byte[] {1, 2});
              }
              c.rollback();
            })
        .check(
            "metadata of results",
            c -> {
              run(
                  c,
                  "CREATE TABLE measured (id serial PRIMARY KEY, v varchar(9) NOT NULL, n"
                      + " numeric(10, 2))");
              try (PreparedStatement s =
                  c.prepareStatement("SELECT id, v AS other, n FROM measured")) {
                ResultSetMetaData m = s.getMetaData();
                Checks.equal(m.getColumnName(2), "other");
                Checks.equal(m.getTableName(2), "measured");
                Checks.equal(m.getColumnTypeName(1), "serial");
                Checks.equal(m.isAutoIncrement(1), true);
                Checks.equal(m.isNullable(2), ResultSetMetaData.columnNoNulls);
                Checks.equal(
                    List.of(m.getPrecision(2), m.getPrecision(3), m.getScale(3)),
                    List.of(9, 10, 2));
                ((org.postgresql.PGResultSetMetaData) m).getBaseColumnName(2);
              }
            })
        .check(
            "metadata of parameters",
            c -> {
              run(c, "CREATE TABLE asked (id int, v text)");
              try (PreparedStatement s =
                  c.prepareStatement("SELECT * FROM asked WHERE id = ? AND v = ?")) {
                Checks.equal(s.getParameterMetaData().getParameterTypeName(1), "int4");
                Checks.equal(s.getParameterMetaData().getParameterTypeName(2), "text");
              }
            })
        .check(
            "getTables",
            c -> {
              DatabaseMetaData m = described(c, "d_tables");
              ResultSet r = m.getTables(null, "public", "d_tables", new String[] {"TABLE"});
              Checks.equal(r.next(), true);
              Checks.equal(r.getString("TABLE_TYPE"), "TABLE");
              Checks.equal(r.getString("REMARKS"), "a table");
              run(c, "CREATE VIEW d_view AS SELECT 1 AS a");
              Checks.equal(
                  column(m.getTables(null, null, "d\\_view", null), "TABLE_TYPE"), List.of("VIEW"));
              column(m.getTables(null, null, "%", null), "TABLE_NAME");
            })
        .check(
            "getColumns",
            c -> {
              ResultSet r = described(c, "d_columns").getColumns(null, "public", "d_columns", "%");
              Map<String, List<Object>> found = new TreeMap<>();
              while (r.next()) {
                found.put(
                    r.getString("COLUMN_NAME"),
                    List.of(
                        r.getString("TYPE_NAME"),
                        r.getInt("DATA_TYPE"),
                        r.getInt("COLUMN_SIZE"),
                        r.getString("IS_NULLABLE"),
                        r.getString("IS_AUTOINCREMENT")));
              }
              Checks.equal(found.get("id"), List.of("serial", Types.INTEGER, 10, "NO", "YES"));
              Checks.equal(found.get("name"), List.of("varchar", Types.VARCHAR, 40, "NO", "NO"));
              Checks.equal(found.get("price"), List.of("numeric", Types.NUMERIC, 10, "YES", "NO"));
              Checks.equal(
                  found.get("tags"), List.of("_text", Types.ARRAY, Integer.MAX_VALUE, "YES", "NO"));
              Checks.equal(found.get("big").get(4), "YES");
            })
        .check(
            "getPrimaryKeys",
            c -> {
              ResultSet r = described(c, "d_keys").getPrimaryKeys(null, "public", "d_keys");
              r.next();
              Checks.equal(
                  List.of(r.getString("COLUMN_NAME"), r.getString("PK_NAME")),
                  List.of("id", "d_keys_pk"));
            })
        .check(
            "getIndexInfo",
            c -> {
              DatabaseMetaData m = described(c, "d_index");
              ResultSet r = m.getIndexInfo(null, "public", "d_index", false, true);
              List<String> found = new ArrayList<>();
              while (r.next()) {
                found.add(
                    r.getString("INDEX_NAME")
                        + " "
                        + r.getString("COLUMN_NAME")
                        + " "
                        + r.getString("ASC_OR_DESC"));
              }
              Checks.equal(
                  found,
                  List.of(
                      "d_index_once name A",
                      "d_index_once price A",
                      "d_index_pk id A",
                      "d_index_at at D",
                      "d_index_at name A"));
            })
        .check(
            "getImportedKeys and getExportedKeys",
            c -> {
              DatabaseMetaData m = described(c, "d_fk");
              ResultSet r = m.getImportedKeys(null, "public", "d_fk");
              Checks.equal(r.next(), true);
              Checks.equal(
                  List.of(
                      r.getString("PKTABLE_NAME"),
                      r.getString("FKCOLUMN_NAME"),
                      r.getString("FK_NAME"),
                      r.getShort("DELETE_RULE")),
                  List.of(
                      "d_fk_owner",
                      "owner",
                      "d_fk_fk",
                      (short) DatabaseMetaData.importedKeyCascade));
              Checks.equal(
                  column(m.getExportedKeys(null, null, "d_fk_owner"), "FKTABLE_NAME"),
                  List.of("d_fk"));
              Checks.equal(
                  column(
                      m.getCrossReference(null, null, "d_fk_owner", null, null, "d_fk"), "FK_NAME"),
                  List.of("d_fk_fk"));
            })
        .check(
            "getSchemas and getCatalogs",
            c -> {
              DatabaseMetaData m = c.getMetaData();
              List<Object> schemas = column(m.getSchemas(), "TABLE_SCHEM");
              if (!schemas.containsAll(List.of("information_schema", "pg_catalog", "public"))) {
                throw new AssertionError(schemas.toString());
              }
              if (!column(m.getCatalogs(), "TABLE_CAT").contains(Checks.DATABASE))
                throw new AssertionError("no catalog");
              column(m.getTableTypes(), "TABLE_TYPE");
            })
        .check(
            "getTypeInfo",
            c -> {
              List<Object> names = column(c.getMetaData().getTypeInfo(), "TYPE_NAME");
              if (!names.containsAll(
                  List.of("int4", "text", "uuid", "jsonb", "numeric", "serial"))) {
                throw new AssertionError(names.toString());
              }
            })
        .check(
            "getFunctions and getProcedures",
            c -> {
              DatabaseMetaData m = c.getMetaData();
              if (!column(m.getFunctions(null, "pg_catalog", "upper"), "FUNCTION_NAME")
                  .contains("upper")) {
                throw new AssertionError("no upper");
              }
              column(m.getFunctionColumns(null, "pg_catalog", "upper", null), "COLUMN_NAME");
              column(m.getProcedures(null, null, "%"), "PROCEDURE_NAME");
              column(m.getProcedureColumns(null, null, "%", null), "COLUMN_NAME");
            })
        .check(
            "getUDTs",
            c -> {
              column(c.getMetaData().getUDTs(null, null, "%", null), "TYPE_NAME");
            })
        .check(
            "getBestRowIdentifier and getVersionColumns",
            c -> {
              DatabaseMetaData m = described(c, "d_best");
              Checks.equal(
                  column(
                      m.getBestRowIdentifier(
                          null, null, "d_best", DatabaseMetaData.bestRowSession, true),
                      "COLUMN_NAME"),
                  List.of("id"));
              Checks.equal(
                  column(m.getVersionColumns(null, null, "d_best"), "COLUMN_NAME"),
                  List.of("ctid"));
            })
        .check(
            "privileges",
            c -> {
              DatabaseMetaData m = described(c, "d_rights");
              if (!column(m.getTablePrivileges(null, "public", "d_rights"), "PRIVILEGE")
                  .contains("SELECT")) {
                throw new AssertionError("no SELECT");
              }
              if (!column(m.getColumnPrivileges(null, "public", "d_rights", "id"), "PRIVILEGE")
                  .contains("SELECT")) {
                throw new AssertionError("no SELECT of a column");
              }
            })
        .check(
            "words and functions of the server",
            c -> {
              DatabaseMetaData m = c.getMetaData();
              if (!m.getSQLKeywords().contains("ilike"))
                throw new AssertionError(m.getSQLKeywords());
              Checks.equal(m.getMaxColumnNameLength(), 63);
              Checks.equal(m.getMaxIndexLength() > 0, false);
              Checks.equal(m.getDefaultTransactionIsolation() > 0, true);
              m.getMaxStatements();
              column(m.getClientInfoProperties(), "NAME");
            })
        .run();
  }
}
