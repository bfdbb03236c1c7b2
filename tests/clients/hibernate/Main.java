import jakarta.persistence.LockModeType;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.criteria.JoinType;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/** Hibernate: schemas made from entities, sessions, HQL and criteria. */
final class Main {
  /** A database of its own for each check, and what is made of it. */
  static final class Database implements AutoCloseable {
    final String url;
    private final List<SessionFactory> open = new ArrayList<>();

    Database() throws Exception {
      url = Checks.freshDatabase();
    }

    SessionFactory factory(String action, Class<?>... entities) {
      Configuration configuration =
          new Configuration()
              .setProperty("hibernate.connection.url", url)
              .setProperty("hibernate.hbm2ddl.auto", action)
              .setProperty("hibernate.hbm2ddl.halt_on_error", "true")
              .setProperty("hibernate.jdbc.batch_size", "20")
              .setProperty("hibernate.jdbc.time_zone", "UTC")
              .setProperty("hibernate.connection.pool_size", "4");
      for (Class<?> entity : entities) {
        configuration.addAnnotatedClass(entity);
      }
      SessionFactory factory = configuration.buildSessionFactory();
      open.add(factory);
      return factory;
    }

    /** Returns a library with some books. */
    SessionFactory library() {
      SessionFactory factory = factory("create", LIBRARY);
      factory.inTransaction(
          s -> {
            Model.Author ann = new Model.Author();
            ann.name = "ann";
            ann.address.city = "Rome";
            ann.aliases.add("a");
            ann.aliases.add("b");
            Model.Book one = ann.write("one");
            one.price = new BigDecimal("1.50");
            one.tags.add(new Model.Tag("red"));
            ann.write("two").level = Model.Level.HIGH;
            Model.Author bob = new Model.Author();
            bob.name = "bob";
            bob.write("three").price = new BigDecimal("9.00");
            s.persist(ann);
            s.persist(bob);
          });
      return factory;
    }

    @Override
    public void close() {
      open.forEach(SessionFactory::close);
    }
  }

  private static final Class<?>[] LIBRARY = {Model.Author.class, Model.Book.class, Model.Tag.class};

  private static <T> List<T> list(SessionFactory factory, String hql, Class<T> kind) {
    return factory.fromSession(s -> s.createSelectionQuery(hql, kind).getResultList());
  }

  public static void main(String[] args) {
    java.util.TimeZone.setDefault(java.util.TimeZone.getTimeZone("UTC"));
    Checks.of(Database::new)
        .check("creates the schema", d -> d.factory("create", LIBRARY))
        .check(
            "updates an existing schema",
            d -> {
              d.factory("create", Model.Author.class, Model.Book.class, Model.Tag.class).close();
              d.factory(
                  "update",
                  Model.Author.class,
                  Model.Book.class,
                  Model.Tag.class,
                  Model.Animal.class,
                  Model.Dog.class);
            })
        .check(
            "validates a schema",
            d -> {
              d.factory("create", LIBRARY).close();
              d.factory("validate", LIBRARY);
            })
        .check(
            "creates and drops the schema",
            d -> {
              d.factory("create-drop", LIBRARY).close();
              d.factory("create-drop", LIBRARY).close();
            })
        .check(
            "entities with relations",
            d -> {
              SessionFactory f = d.library();
              f.inTransaction(
                  s -> {
                    Model.Author ann =
                        s.createSelectionQuery("from Author where name = 'ann'", Model.Author.class)
                            .getSingleResult();
                    Checks.equal(
                        ann.books.stream().map(b -> b.title).toList(), List.of("one", "two"));
                    Checks.equal(ann.books.get(0).price, new BigDecimal("1.50"));
                    Checks.equal(ann.books.get(0).tags.iterator().next().name, "red");
                    Checks.equal(ann.aliases.size(), 2);
                    Checks.equal(ann.address.city, "Rome");
                  });
            })
        .check(
            "values of every type",
            d -> {
              SessionFactory f = d.factory("create", Model.Kinds.class);
              Model.Kinds k = new Model.Kinds();
              k.id = 1;
              k.big = 1L << 40;
              k.real = 0.25f;
              k.exact = 0.1;
              k.yes = true;
              k.text = "✓";
              k.body = "x".repeat(50_000);
              k.bytes = new byte[] {0, -1};
              k.day = LocalDate.of(2024, 2, 29);
              k.hour = LocalTime.of(1, 2, 3);
              k.at = LocalDateTime.of(2024, 2, 29, 1, 2, 3);
              k.instant = Instant.parse("2024-02-29T01:02:03.000004Z");
              k.zoned = OffsetDateTime.parse("2024-02-29T01:02:03Z");
              k.duration = Duration.ofSeconds(90);
              k.uuid = UUID.randomUUID();
              k.decimal = new BigDecimal("1.25000");
              k.json = Map.of("a", "b");
              k.words = new String[] {"x", "y,z"};
              k.numbers = List.of(1, 2);
              k.ordinal = Model.Level.HIGH;
              k.letter = 'c';
              f.inTransaction(s -> s.persist(k));
              Model.Kinds found = f.fromSession(s -> s.find(Model.Kinds.class, 1));
              Checks.equal(
                  List.of(
                      found.big,
                      found.real,
                      found.exact,
                      found.yes,
                      found.text,
                      found.body.length(),
                      found.day,
                      found.hour,
                      found.at,
                      found.instant,
                      found.zoned.toInstant(),
                      found.duration,
                      found.uuid,
                      found.decimal,
                      found.numbers,
                      found.ordinal,
                      found.letter),
                  List.of(
                      k.big,
                      k.real,
                      k.exact,
                      k.yes,
                      k.text,
                      50_000,
                      k.day,
                      k.hour,
                      k.at,
                      k.instant,
                      k.zoned.toInstant(),
                      k.duration,
                      k.uuid,
                      k.decimal,
                      k.numbers,
                      k.ordinal,
                      k.letter));
              Checks.equal(found.bytes, k.bytes);
              Checks.equal(found.words, k.words);
            })
        .check(
            "decimals of the default precision",
            d -> {
              SessionFactory f = d.factory("create", Model.Money.class);
              Model.Money m = new Model.Money();
              m.amount = new BigDecimal("123456789012345678901234567890123456.78");
              f.inTransaction(s -> s.persist(m));
              Checks.equal(f.fromSession(s -> s.find(Model.Money.class, 0)).amount, m.amount);
            })
        .check(
            "native enums",
            d -> {
              SessionFactory f = d.factory("create", Model.NativeEnum.class);
              Model.NativeEnum e = new Model.NativeEnum();
              e.level = Model.Level.HIGH;
              f.inTransaction(s -> s.persist(e));
              Checks.equal(
                  list(f, "select e.id from NativeEnum e where e.level = HIGH", Integer.class),
                  List.of(0));
            })
        .check(
            "large objects",
            d -> {
              SessionFactory f = d.factory("create", Model.Document.class);
              Model.Document document = new Model.Document();
              document.text = "long";
              f.inTransaction(s -> s.persist(document));
              Checks.equal(f.fromTransaction(s -> s.find(Model.Document.class, 0).text), "long");
            })
        .check(
            "inheritance by joined tables",
            d -> {
              SessionFactory f = d.factory("create", Model.Animal.class, Model.Dog.class);
              f.inTransaction(
                  s -> {
                    Model.Dog dog = new Model.Dog();
                    dog.breed = "collie";
                    s.persist(dog);
                    s.persist(new Model.Animal());
                  });
              Checks.equal(list(f, "from Animal", Model.Animal.class).size(), 2);
              Checks.equal(list(f, "select breed from Dog", String.class), List.of("collie"));
            })
        .check(
            "joins and groups in HQL",
            d -> {
              SessionFactory f = d.library();
              var rows =
                  list(
                      f,
                      "select a.name, count(b), sum(b.price) from Author a join a.books b group by"
                          + " a.name order by a.name",
                      Object[].class);
              Checks.equal(rows.get(0), new Object[] {"ann", 2L, new BigDecimal("1.50")});
              Checks.equal(
                  list(
                      f,
                      "select b.title from Book b where b.author.name like 'a%' order by b.title"
                          + " desc",
                      String.class),
                  List.of("two", "one"));
              Checks.equal(
                  list(
                      f,
                      "select distinct a.name from Author a where size(a.books) > 1",
                      String.class),
                  List.of("ann"));
              Checks.equal(
                  list(
                      f,
                      "select title from Book where price = (select max(price) from Book)",
                      String.class),
                  List.of("three"));
            })
        .check(
            "pages of results",
            d -> {
              SessionFactory f = d.library();
              Checks.equal(
                  f.fromSession(
                      s ->
                          s.createSelectionQuery(
                                  "select title from Book order by title", String.class)
                              .setFirstResult(1)
                              .setMaxResults(1)
                              .getResultList()),
                  List.of("three"));
            })
        .check(
            "window functions and common table expressions in HQL",
            d -> {
              SessionFactory f = d.library();
              Checks.equal(
                  list(
                      f,
                      "select rank() over (order by title) from Book order by title",
                      Long.class),
                  List.of(1L, 2L, 3L));
              Checks.equal(
                  list(
                      f,
                      "with t as (select title as x from Book) select x from t order by x limit 1",
                      String.class),
                  List.of("one"));
            })
        .check(
            "functions of HQL",
            d -> {
              SessionFactory f = d.library();
              Checks.equal(
                  list(
                      f,
                      "select upper(substring(title, 1, 2)) || length(title) from Book where title"
                          + " = 'one'",
                      String.class),
                  List.of("ON3"));
              Checks.equal(
                  list(
                          f,
                          "select extract(year from date 2024-02-29), cast('5' as Integer) from"
                              + " Book where title = 'one'",
                          Object[].class)
                      .get(0),
                  new Object[] {2024, 5});
              Checks.equal(
                  list(
                          f,
                          "select coalesce(price, 0) from Book where title = 'two'",
                          BigDecimal.class)
                      .get(0)
                      .signum(),
                  0);
              Checks.equal(
                  list(
                      f,
                      "select listagg(title, ',') within group (order by title) from Book",
                      String.class),
                  List.of("one,three,two"));
            })
        .check(
            "criteria",
            d -> {
              SessionFactory f = d.library();
              Checks.equal(
                  f.fromSession(
                      s -> {
                        var b = s.getCriteriaBuilder();
                        var query = b.createQuery(String.class);
                        var book = query.from(Model.Book.class);
                        var author = book.join("author", JoinType.INNER);
                        query
                            .select(book.get("title"))
                            .where(
                                b.equal(author.get("name"), "ann"), b.isNotNull(book.get("price")));
                        return s.createQuery(query).getResultList();
                      }),
                  List.of("one"));
            })
        .check(
            "updates in bulk",
            d -> {
              SessionFactory f = d.library();
              f.inTransaction(
                  s -> {
                    Checks.equal(
                        s.createMutationQuery(
                                "update Book set title = upper(title) where level = LOW")
                            .executeUpdate(),
                        2);
                    Checks.equal(
                        s.createMutationQuery(
                                "delete from Book b where b.author.id = (select a.id from Author a"
                                    + " where a.name = 'bob')")
                            .executeUpdate(),
                        1);
                  });
              Checks.equal(
                  list(f, "select title from Book order by id", String.class),
                  List.of("ONE", "two"));
            })
        .check(
            "upserts in HQL",
            d -> {
              SessionFactory f = d.factory("create", Model.Money.class);
              for (int i = 1; i <= 2; i++) {
                String insert =
                    "insert into Money (id, amount) values (1, "
                        + i
                        + ".00bd) on conflict (id) do update set amount = excluded.amount";
                f.inTransaction(s -> s.createMutationQuery(insert).executeUpdate());
              }
              Checks.equal(
                  list(f, "select amount from Money", BigDecimal.class),
                  List.of(new BigDecimal("2.00")));
            })
        .check(
            "batches of inserts",
            d -> {
              SessionFactory f = d.library();
              f.inTransaction(
                  s -> {
                    Model.Author author = s.find(Model.Author.class, 1L);
                    for (int i = 0; i < 200; i++) author.write("t" + i);
                  });
              Checks.equal(list(f, "select count(*) from Book", Long.class), List.of(203L));
            })
        .check(
            "orphans and cascades",
            d -> {
              SessionFactory f = d.library();
              f.inTransaction(s -> s.find(Model.Author.class, 1L).books.remove(0));
              f.inTransaction(s -> s.remove(s.find(Model.Author.class, 2L)));
              Checks.equal(list(f, "select title from Book", String.class), List.of("two"));
            })
        .check(
            "optimistic locks",
            d -> {
              SessionFactory f = d.library();
              Session mine = f.openSession();
              mine.beginTransaction();
              Model.Author author = mine.find(Model.Author.class, 1L);
              mine.getTransaction().commit();
              f.inTransaction(s -> s.find(Model.Author.class, 1L).name = "theirs");
              mine.beginTransaction();
              author.name = "mine";
              try {
                mine.getTransaction().commit();
              } catch (OptimisticLockException stale) {
                return;
              } finally {
                mine.close();
              }
              throw new AssertionError("no error, expected OptimisticLockException");
            })
        .check(
            "pessimistic locks",
            d -> {
              SessionFactory f = d.library();
              f.inTransaction(
                  s -> {
                    s.find(Model.Author.class, 1L, LockModeType.PESSIMISTIC_WRITE);
                    f.inTransaction(
                        other ->
                            Checks.equal(
                                other
                                    .createNativeQuery(
                                        "select id from author order by id for update skip locked",
                                        Long.class)
                                    .getResultList(),
                                List.of(2L)));
                  });
            })
        .check(
            "pessimistic read locks",
            d -> {
              SessionFactory f = d.library();
              f.inTransaction(s -> s.find(Model.Author.class, 1L, LockModeType.PESSIMISTIC_READ));
            })
        .check(
            "violated constraints by name",
            d -> {
              SessionFactory f = d.library();
              Consumer<Session> again =
                  s -> {
                    Model.Author author = new Model.Author();
                    author.name = "ann";
                    s.persist(author);
                  };
              try {
                f.inTransaction(again);
              } catch (org.hibernate.exception.ConstraintViolationException error) {
                Checks.equal(error.getSQLState(), "23505");
                Checks.equal(error.getConstraintName(), "author_name");
                return;
              }
              throw new AssertionError("no error, expected ConstraintViolationException");
            })
        .check(
            "native queries",
            d -> {
              SessionFactory f = d.library();
              Checks.equal(
                  f.fromSession(
                      s ->
                          s.createNativeQuery(
                                  "select a.* from author a where a.name = :name",
                                  Model.Author.class)
                              .setParameter("name", "bob")
                              .getSingleResult()
                              .name),
                  "bob");
            })
        .check(
            "scrolling through results",
            d -> {
              SessionFactory f = d.library();
              f.inTransaction(
                  s -> {
                    try (var results =
                        s.createSelectionQuery(
                                "select title from Book order by title", String.class)
                            .setFetchSize(1)
                            .scroll()) {
                      int count = 0;
                      while (results.next()) count++;
                      Checks.equal(count, 3);
                    }
                  });
            })
        .run();
  }
}
