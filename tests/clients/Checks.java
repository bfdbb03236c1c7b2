import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Runs named checks, and prints {@code ok NAME} or {@code not ok NAME: ERROR} for each.
 *
 * <p>A check has tables of its own, so that none depends on another.
 */
final class Checks {
  static final String HOST = System.getenv("PGHOST");
  static final String PORT = System.getenv("PGPORT");
  static final String USER = System.getenv("PGUSER");
  static final String DATABASE = System.getenv("PGDATABASE");
  static final String URL =
      "jdbc:postgresql://" + HOST + ":" + PORT + "/" + DATABASE + "?user=" + USER;

  /** The time that one check may take. */
  private static final int SECONDS = 30;

  private static final AtomicInteger DATABASES = new AtomicInteger();

  /** Creates a database, and returns its URL. */
  static String freshDatabase() throws SQLException {
    String name = DATABASE + "_" + DATABASES.incrementAndGet();
    String protocol = System.getenv("MERIDIAN_PROTOCOL");
    try (Connection c = DriverManager.getConnection(URL)) {
      c.createStatement()
          .execute(
              "CREATE DATABASE "
                  + name
                  + (protocol == null ? "" : " PROTOCOL = \"" + protocol + "\""));
    }
    return URL.replace("/" + DATABASE, "/" + name);
  }

  interface Action<T> {
    void run(T resource) throws Exception;
  }

  interface Opening<T> {
    T open() throws Exception;
  }

  private record Check<T>(String name, Action<T> action) {}

  /** Returns a list of checks that use a resource each. */
  static <T extends AutoCloseable> Suite<T> of(Opening<T> opening) {
    return new Suite<>(opening);
  }

  static final class Suite<T extends AutoCloseable> {
    private final Opening<T> opening;
    private final List<Check<T>> checks = new ArrayList<>();

    Suite(Opening<T> opening) {
      this.opening = opening;
    }

    Suite<T> check(String name, Action<T> action) {
      checks.add(new Check<>(name, action));
      return this;
    }

    void run() {
      for (Check<T> check : checks) {
        var thread =
            Executors.newSingleThreadExecutor(
                work -> {
                  Thread made = new Thread(work);
                  made.setDaemon(true);
                  return made;
                });
        var done =
            thread.submit(
                () -> {
                  try (T resource = opening.open()) {
                    check.action().run(resource);
                  }
                  return null;
                });
        String error = null;
        try {
          done.get(SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException wrong) {
          error = said(wrong.getCause());
        } catch (TimeoutException late) {
          error = "no end within " + SECONDS + " s";
        } catch (InterruptedException end) {
          return;
        }
        System.out.println(
            error == null ? "ok " + check.name() : "not ok " + check.name() + ": " + error);
      }
      System.exit(0);
    }
  }

  /** Returns the message of the server if there is one. */
  private static String said(Throwable wrong) {
    Throwable told = wrong;
    for (Throwable at = wrong; at != null; at = at.getCause()) {
      if (at instanceof SQLException) {
        told = at;
      }
    }
    String text =
        (told.getClass().getSimpleName() + ": " + told.getMessage()).replaceAll("\\s+", " ");
    return text.substring(0, Math.min(300, text.length()));
  }

  /** Fails unless two values are equal. */
  static void equal(Object found, Object expected) {
    if (!Objects.deepEquals(found, expected)) {
      throw new AssertionError(text(found) + ", expected " + text(expected));
    }
  }

  private static String text(Object value) {
    return value instanceof Object[] array ? Arrays.deepToString(array) : String.valueOf(value);
  }

  /** Fails unless an action fails with this SQLSTATE; returns the exception. */
  static SQLException raises(String state, Action<Void> action) throws Exception {
    try {
      action.run(null);
    } catch (Exception error) {
      for (Throwable at = error; at != null; at = at.getCause()) {
        if (at instanceof SQLException told) {
          if (!state.equals(told.getSQLState())) {
            throw new AssertionError(
                "SQLSTATE "
                    + told.getSQLState()
                    + " ("
                    + told.getMessage()
                    + "), expected "
                    + state);
          }
          return told;
        }
      }
      throw error;
    }
    throw new AssertionError("no error, expected " + state);
  }

  private Checks() {}
}
