import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.MigrationInfo;

/** Flyway: versioned and repeatable migrations. */
final class Main {
  /** A database of its own for each check. */
  static final class Database implements AutoCloseable {
    final String url;

    Database() throws Exception {
      url = Checks.freshDatabase();
    }

    Flyway flyway(String... folders) {
      String[] locations =
          Arrays.stream(folders).map(folder -> "filesystem:" + folder).toArray(String[]::new);
      return Flyway.configure()
          .dataSource(url, Checks.USER, null)
          .locations(locations)
          .cleanDisabled(false)
          .baselineOnMigrate(false)
          .load();
    }

    Object value(String sql) throws Exception {
      try (Connection c = DriverManager.getConnection(url);
          ResultSet r = c.createStatement().executeQuery(sql)) {
        r.next();
        return r.getObject(1);
      }
    }

    @Override
    public void close() {}
  }

  public static void main(String[] args) {
    Checks.of(Database::new)
        .check(
            "migrates",
            d -> {
              Checks.equal(d.flyway("migrations").migrate().migrationsExecuted, 4);
              Checks.equal(d.value("SELECT sum(total)::int FROM totals"), 20);
              Checks.equal(
                  d.value("SELECT count(*)::int FROM flyway_schema_history WHERE success"), 4);
            })
        .check(
            "migrates once",
            d -> {
              d.flyway("migrations").migrate();
              Checks.equal(d.flyway("migrations").migrate().migrationsExecuted, 0);
              d.flyway("migrations").validate();
            })
        .check(
            "shows the state of migrations",
            d -> {
              d.flyway("migrations").migrate();
              List<String> states = new ArrayList<>();
              for (MigrationInfo info : d.flyway("migrations", "copied").info().all()) {
                states.add(info.getVersion() + " " + info.getState());
              }
              Checks.equal(
                  states,
                  List.of("1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "null SUCCESS", "4 PENDING"));
            })
        .check(
            "a broken migration leaves nothing",
            d -> {
              try {
                d.flyway("migrations", "broken").migrate();
              } catch (FlywayException error) {
                Checks.equal(d.value("SELECT to_regclass('half')::text"), null);
                Checks.equal(d.value("SELECT max(version) FROM flyway_schema_history"), "3");
                return;
              }
              throw new AssertionError("no error, expected FlywayException");
            })
        .check(
            "COPY in a migration",
            d -> {
              d.flyway("migrations", "copied").migrate();
              Checks.equal(d.value("SELECT count(*)::int FROM account"), 4);
            })
        .check(
            "an index made concurrently",
            d -> {
              var configuration = d.flyway("migrations", "concurrent").getConfiguration();
              Flyway.configure()
                  .configuration(configuration)
                  .configuration(java.util.Map.of("flyway.postgresql.transactional.lock", "false"))
                  .load()
                  .migrate();
              Checks.equal(
                  d.value("SELECT count(*)::int FROM pg_indexes WHERE indexname = 'entry_amount'"),
                  1);
            })
        .check(
            "functions and DO blocks in a migration",
            d -> d.flyway("migrations", "functions").migrate())
        .check(
            "baselines an existing database",
            d -> {
              try (Connection c = DriverManager.getConnection(d.url)) {
                c.createStatement().execute("CREATE TABLE existing (id int)");
              }
              Flyway flyway = d.flyway("migrations");
              flyway.baseline();
              // The baseline is version 1, whose tables are not there.
              try {
                flyway.migrate();
              } catch (FlywayException error) {
                Checks.equal(d.value("SELECT type FROM flyway_schema_history"), "BASELINE");
                return;
              }
              throw new AssertionError("no error, expected FlywayException");
            })
        .check(
            "repairs the history",
            d -> {
              d.flyway("migrations").migrate();
              d.value(
                  "UPDATE flyway_schema_history SET checksum = 7 WHERE version = '1' RETURNING"
                      + " checksum");
              d.flyway("migrations").repair();
              d.flyway("migrations").validate();
            })
        .check(
            "cleans the schema",
            d -> {
              d.flyway("migrations").migrate();
              d.flyway("migrations").clean();
              Checks.equal(
                  d.value(
                      "SELECT count(*)::int FROM information_schema.tables WHERE table_schema ="
                          + " 'public'"),
                  0);
              Checks.equal(d.flyway("migrations").migrate().migrationsExecuted, 4);
            })
        .check(
            "makes a schema of its own",
            d -> {
              Flyway.configure()
                  .configuration(d.flyway("migrations").getConfiguration())
                  .schemas("app")
                  .load()
                  .migrate();
              Checks.equal(d.value("SELECT count(*)::int FROM app.account"), 2);
            })
        .check(
            "two migrate at once",
            d -> {
              var threads = Executors.newFixedThreadPool(2);
              List<Future<Integer>> counts = new ArrayList<>();
              for (int i = 0; i < 2; i++)
                counts.add(
                    threads.submit(() -> d.flyway("migrations").migrate().migrationsExecuted));
              int sum = 0;
              for (var count : counts) sum += count.get();
              threads.shutdown();
              Checks.equal(sum, 4);
            })
        .run();
  }
}
