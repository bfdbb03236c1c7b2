import jakarta.persistence.CascadeType;
import jakarta.persistence.Column;
import jakarta.persistence.ElementCollection;
import jakarta.persistence.Embeddable;
import jakarta.persistence.Embedded;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.FetchType;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.Inheritance;
import jakarta.persistence.InheritanceType;
import jakarta.persistence.JoinColumn;
import jakarta.persistence.Lob;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OrderBy;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
import jakarta.persistence.UniqueConstraint;
import jakarta.persistence.Version;
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
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.type.SqlTypes;

/** The entities of the checks. */
final class Model {
  enum Level {
    LOW,
    HIGH
  }

  @Embeddable
  static class Address {
    String street;
    String city;
  }

  @Entity(name = "Author")
  @Table(
      name = "author",
      uniqueConstraints = @UniqueConstraint(name = "author_name", columnNames = "name"))
  static class Author {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    Long id;

    @Column(nullable = false, length = 50)
    String name;

    @Embedded Address address = new Address();

    @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true)
    @OrderBy("id")
    List<Book> books = new ArrayList<>();

    @ElementCollection Set<String> aliases = new TreeSet<>();
    @Version int version;

    Book write(String title) {
      Book book = new Book();
      book.title = title;
      book.author = this;
      books.add(book);
      return book;
    }
  }

  @Entity(name = "Book")
  @Table(name = "book", indexes = @Index(name = "book_title", columnList = "title, price DESC"))
  static class Book {
    @Id
    @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "book_ids")
    @SequenceGenerator(name = "book_ids", sequenceName = "book_ids", allocationSize = 10)
    Long id;

    String title;

    @Column(precision = 10, scale = 2)
    BigDecimal price;

    @Enumerated(EnumType.STRING)
    Level level = Level.LOW;

    @ManyToOne(fetch = FetchType.LAZY, optional = false)
    @JoinColumn(name = "author_id")
    Author author;

    @ManyToMany(cascade = CascadeType.PERSIST)
    Set<Tag> tags = new java.util.HashSet<>();
  }

  @Entity(name = "Tag")
  @Table(name = "tag")
  static class Tag {
    @Id @GeneratedValue UUID id;
    String name;

    Tag() {}

    Tag(String name) {
      this.name = name;
    }
  }

  @Entity(name = "Kinds")
  @Table(name = "kinds")
  static class Kinds {
    @Id int id;
    short small;
    long big;
    float real;
    double exact;
    boolean yes;
    String text;

    @Column(length = 100_000)
    String body;

    byte[] bytes;
    LocalDate day;
    LocalTime hour;
    LocalDateTime at;
    Instant instant;
    OffsetDateTime zoned;
    Duration duration;
    UUID uuid;

    @Column(precision = 20, scale = 5)
    BigDecimal decimal;

    @JdbcTypeCode(SqlTypes.JSON)
    Map<String, Object> json;

    String[] words;
    List<Integer> numbers;

    @Enumerated(EnumType.ORDINAL)
    Level ordinal;

    char letter;
  }

  /** Decimals without a precision become numeric(38,2). */
  @Entity(name = "Money")
  @Table(name = "money_of")
  static class Money {
    @Id int id;
    BigDecimal amount;
  }

  @Entity(name = "NativeEnum")
  @Table(name = "native_enum")
  static class NativeEnum {
    @Id int id;

    @JdbcTypeCode(SqlTypes.NAMED_ENUM)
    Level level;
  }

  @Entity(name = "Document")
  @Table(name = "document")
  static class Document {
    @Id int id;
    @Lob String text;
  }

  @Entity(name = "Animal")
  @Table(name = "animal")
  @Inheritance(strategy = InheritanceType.JOINED)
  static class Animal {
    @Id @GeneratedValue Integer id;
  }

  @Entity(name = "Dog")
  @Table(name = "dog")
  static class Dog extends Animal {
    String breed;
  }

  private Model() {}
}
