"""SQLAlchemy 2, its core, its ORM and its Inspector, and a migration of Alembic."""

import datetime as dt
import enum
import os
import tempfile
import uuid
from decimal import Decimal
from typing import Optional

import checks
import sqlalchemy as sa
from checks import check, equal
from sqlalchemy import exc, func, select, text
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    aliased,
    joinedload,
    mapped_column,
    relationship,
    selectinload,
)

URL = f"postgresql+psycopg://{checks.USER}@{checks.HOST}:{checks.PORT}/{checks.DATABASE}"


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


def raises(kind, action, state):
    try:
        action()
    except kind as error:
        equal(error.orig.sqlstate, state)
        return
    raise AssertionError(f"no error, expected {kind.__name__}")


def table(name, *columns):
    """Creates a table, and returns it."""
    created = sa.Table(name, sa.MetaData(), *columns)
    created.create(ENGINE)
    return created


ENGINE = sa.create_engine(URL)


@check
def dialect_and_version(e):
    with e.connect() as c:
        assert e.dialect.server_version_info >= (14,), e.dialect.server_version_info
        equal(e.dialect.default_schema_name, "public")
        equal(c.scalar(text("SELECT 1")), 1)


@check
def create_all_and_drop_all(e):
    meta = sa.MetaData()
    parent = sa.Table("all_parent", meta, sa.Column("id", sa.Integer, primary_key=True))
    sa.Table(
        "all_child",
        meta,
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("parent_id", sa.ForeignKey(parent.c.id, ondelete="CASCADE"), index=True),
        sa.Column("n", sa.Integer, sa.CheckConstraint("n > 0"), nullable=False, comment="a number"),
        sa.Column("at", sa.DateTime(timezone=True), server_default=func.now()),
        sa.UniqueConstraint("parent_id", "n", name="all_once"),
        comment="a table",
    )
    meta.create_all(e)
    meta.create_all(e)
    equal(sa.inspect(e).has_table("all_child"), True)
    meta.drop_all(e)
    equal(sa.inspect(e).has_table("all_child"), False)


@check
def insert_update_delete(e):
    t = table("crud", sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sa.String(20)))
    with e.begin() as c:
        equal(c.execute(sa.insert(t).values(v="a")).inserted_primary_key, (1,))
        c.execute(sa.insert(t), [{"v": "b"}, {"v": "c"}])
        rows = c.execute(sa.update(t).where(t.c.v == "b").values(v="B").returning(t.c.id, t.c.v))
        equal(rows.all(), [(2, "B")])
        equal(c.execute(sa.delete(t).where(t.c.id > 1)).rowcount, 2)
        equal(c.execute(select(t)).all(), [(1, "a")])


@check
def insert_many_values_in_order(e):
    t = table("bulk", sa.Column("id", sa.Integer, primary_key=True), sa.Column("v", sa.Integer))
    with e.begin() as c:
        query = sa.insert(t).returning(t.c.id, sort_by_parameter_order=True)
        ids = c.execute(query, [{"v": i} for i in range(2500)]).scalars().all()
        equal(list(ids), list(range(1, 2501)))


@check
def every_type(e):
    columns = {
        "a": (sa.SmallInteger, 5),
        "b": (sa.BigInteger, 2**40),
        "c": (sa.Numeric(12, 3), Decimal("1.250")),
        "d": (sa.Float, 0.5),
        "e": (sa.REAL, 0.25),
        "f": (sa.Boolean, True),
        "g": (sa.Text, "✓"),
        "h": (sa.LargeBinary, b"\x00\xff"),
        "i": (sa.Date, dt.date(2024, 2, 29)),
        "j": (sa.Time, dt.time(1, 2, 3)),
        "k": (sa.DateTime, dt.datetime(2024, 1, 2, 3, 4, 5, 6)),
        "l": (sa.Interval, dt.timedelta(days=1, seconds=2)),
        "m": (sa.Uuid, uuid.UUID(int=7)),
        "n": (sa.JSON, {"a": [1, None]}),
        "o": (pg.JSONB, [1, "x"]),
        "p": (sa.ARRAY(sa.Integer), [1, 2]),
        "q": (pg.ARRAY(sa.Text, dimensions=2), [["a"], ["b"]]),
        "r": (sa.Enum(Level, name="every_level"), Level.HIGH),
        "s": (pg.INET, __import__("ipaddress").ip_address("10.0.0.1")),
        "t": (sa.CHAR(4), "abcd"),
    }
    key = sa.Column("id", sa.Integer, primary_key=True)
    t = table("every", key, *(sa.Column(k, kind) for k, (kind, _) in columns.items()))
    values = {name: value for name, (_, value) in columns.items()}
    with e.begin() as c:
        c.execute(sa.insert(t).values(**values))
        equal(dict(c.execute(select(*list(t.c)[1:])).mappings().one()), values)
        c.execute(sa.insert(t).values(a=None))


@check
def types_of_postgresql(e):
    t = table("ranges", sa.Column("r", pg.INT4RANGE), sa.Column("b", pg.BIT(3)))
    with e.begin() as c:
        c.execute(sa.insert(t).values(r=pg.Range(1, 5), b=None))
        equal(c.scalar(select(t.c.r)), pg.Range(1, 5))


@check
def domains(e):
    kind = pg.DOMAIN("email", sa.Text, check="VALUE LIKE '%@%'")
    t = table("mailed", sa.Column("m", kind))
    with e.begin() as c:
        c.execute(sa.insert(t).values(m="a@b"))
    raises(exc.IntegrityError, lambda: run(e, sa.insert(t).values(m="x")), "23514")


def run(e, statement):
    with e.begin() as c:
        return c.execute(statement)


@check
def json_paths_and_operators(e):
    t = table("documents", sa.Column("d", pg.JSONB))
    with e.begin() as c:
        c.execute(sa.insert(t).values(d={"a": {"b": 5}, "tags": ["x", "y"]}))
        equal(c.scalar(select(t.c.d["a"]["b"].as_integer())), 5)
        equal(c.scalar(select(t.c.d[("a", "b")].astext)), "5")
        query = select(func.count()).where(t.c.d.contains({"tags": ["x"]}), t.c.d.has_key("a"))
        equal(c.scalar(query.select_from(t)), 1)
        path, six = sa.cast(["a", "b"], pg.ARRAY(sa.Text)), sa.cast(6, pg.JSONB)
        changed = func.jsonb_set(t.c.d, path, six, type_=pg.JSONB)
        equal(c.scalar(select(changed)), {"a": {"b": 6}, "tags": ["x", "y"]})
        equal(c.scalar(select(t.c.d.path_exists("$.a.b"))), True)


@check
def array_operators(e):
    t = table("lists", sa.Column("a", pg.ARRAY(sa.Integer)))
    with e.begin() as c:
        c.execute(sa.insert(t).values(a=[1, 2, 3]))
        row = c.execute(
            select(t.c.a[1], t.c.a[2:3], t.c.a.contains([1]), t.c.a.overlap([9]), t.c.a.any(2))
        ).one()
        equal(tuple(row), (1, [2, 3], True, False, True))
        x = func.unnest(t.c.a).column_valued("x")
        equal(c.execute(select(x).select_from(t).order_by(x)).scalars().all(), [1, 2, 3])


@check
def errors_by_class(e):
    t = table(
        "strict",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("s", sa.String(2)),
        sa.CheckConstraint("n > 0"),
    )
    run(e, sa.insert(t).values(id=1, n=1))
    raises(exc.IntegrityError, lambda: run(e, sa.insert(t).values(id=1, n=1)), "23505")
    raises(exc.IntegrityError, lambda: run(e, sa.insert(t).values(id=2)), "23502")
    raises(exc.IntegrityError, lambda: run(e, sa.insert(t).values(id=2, n=0)), "23514")
    raises(exc.DataError, lambda: run(e, sa.insert(t).values(id=2, n=1, s="long")), "22001")
    raises(exc.ProgrammingError, lambda: run(e, text("SELECT * FROM missing")), "42P01")


@check
def upserts(e):
    t = table("upserted", sa.Column("k", sa.Text, primary_key=True), sa.Column("n", sa.Integer))
    for n in (1, 5):
        insert = pg.insert(t).values(k="a", n=n)
        update = {"n": t.c.n + insert.excluded.n}
        query = insert.on_conflict_do_update(index_elements=[t.c.k], set_=update, where=t.c.n < 100)
        run(e, query)
    run(e, pg.insert(t).values(k="a", n=9).on_conflict_do_nothing())
    with e.connect() as c:
        equal(c.execute(select(t)).all(), [("a", 6)])


@check
def savepoints(e):
    t = table("saved", sa.Column("id", sa.Integer, primary_key=True))
    with e.begin() as c:
        c.execute(sa.insert(t).values(id=1))
        try:
            with c.begin_nested():
                c.execute(sa.insert(t).values(id=1))
        except exc.IntegrityError:
            pass
        c.execute(sa.insert(t).values(id=2))
        equal(c.scalar(select(func.count()).select_from(t)), 2)


@check
def isolation_levels(e):
    for level in ("SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"):
        with e.connect().execution_options(isolation_level=level) as c:
            equal(c.get_isolation_level(), level)


@check
def automatic_commits(e):
    with e.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.execute(text("CREATE TABLE automatic (id int)"))
    equal(sa.inspect(e).has_table("automatic"), True)


@check
def select_for_update(e):
    t = table("locked", sa.Column("id", sa.Integer, primary_key=True))
    run(e, sa.insert(t).values([{"id": 1}, {"id": 2}]))
    with e.begin() as c, e.begin() as other:
        c.execute(select(t).where(t.c.id == 1).with_for_update()).all()
        query = select(t.c.id).order_by(t.c.id).with_for_update(skip_locked=True)
        equal(other.execute(query).all(), [(2,)])
        query = select(t.c.id).with_for_update(key_share=True, nowait=True)
        other.execute(query.where(t.c.id == 2)).all()


@check
def streams(e):
    with e.connect() as c:
        result = c.execution_options(yield_per=100).execute(text("SELECT generate_series(1, 1000)"))
        equal(sum(row[0] for row in result), 500500)


@check
def common_table_expressions(e):
    with e.connect() as c:
        n = select(sa.literal(1).label("n")).cte("walk", recursive=True)
        n = n.union_all(select(n.c.n + 1).where(n.c.n < 5))
        equal(c.scalar(select(func.sum(n.c.n))), 15)
        total = func.sum(n.c.n).over(order_by=n.c.n, rows=(None, 0))
        equal([row[0] for row in c.execute(select(total))], [1, 3, 6, 10, 15])


@check
def lateral_joins_and_exists(e):
    t = table("sides", sa.Column("id", sa.Integer, primary_key=True), sa.Column("g", sa.Integer))
    run(e, sa.insert(t).values([{"id": i, "g": i % 2} for i in range(6)]))
    u = t.alias()
    best = select(func.max(u.c.id).label("m")).where(u.c.g == t.c.g).lateral("best")
    query = select(t.c.g, best.c.m).join(best, sa.true()).distinct().order_by(t.c.g)
    with e.connect() as c:
        equal(c.execute(query).all(), [(0, 4), (1, 5)])
        v = t.alias()
        last = ~sa.exists().where(v.c.g == t.c.g, v.c.id > t.c.id)
        equal(c.scalars(select(t.c.id).where(last).order_by(t.c.id)).all(), [4, 5])


@check
def grouping_filters_and_ordered_sets(e):
    v = sa.values(sa.column("g", sa.Text), sa.column("n", sa.Integer), name="v")
    v = v.data([("a", 1), ("a", 2), ("b", 5)])
    query = (
        select(
            v.c.g,
            func.count().filter(v.c.n > 1),
            func.string_agg(sa.cast(v.c.n, sa.Text), pg.aggregate_order_by(sa.literal(","), v.c.n)),
            func.percentile_cont(0.5).within_group(v.c.n),
        )
        .group_by(v.c.g)
        .order_by(v.c.g)
    )
    with e.connect() as c:
        equal(c.execute(query).all(), [("a", 1, "1,2", 1.5), ("b", 1, "5", 5.0)])


@check
def changing_data_in_with(e):
    t = table("moved", sa.Column("id", sa.Integer, primary_key=True))
    run(e, sa.insert(t).values([{"id": 1}, {"id": 2}]))
    gone = sa.delete(t).where(t.c.id == 1).returning(t.c.id).cte("gone")
    equal(run(e, select(gone.c.id)).all(), [(1,)])


@check
def temporary_tables(e):
    meta = sa.MetaData()
    t = sa.Table("scratch", meta, sa.Column("id", sa.Integer), prefixes=["TEMPORARY"])
    with e.begin() as c:
        t.create(c)
        c.execute(sa.insert(t).values(id=1))
        equal(c.scalar(select(t.c.id)), 1)


@check
def computed_columns(e):
    t = table(
        "computed",
        sa.Column("a", sa.Integer),
        sa.Column("b", sa.Integer, sa.Computed("a * 2", persisted=True)),
    )
    equal(run(e, sa.insert(t).values(a=4).returning(t.c.b)).scalar(), 8)


@check
def sequences(e):
    s = sa.Sequence("counted_seq", start=10, increment=5)
    t = table("counted", sa.Column("id", sa.Integer, s, primary_key=True))
    with e.begin() as c:
        equal(c.execute(sa.insert(t)).inserted_primary_key, (10,))
        equal(c.scalar(s), 15)
    equal(sa.inspect(e).has_sequence("counted_seq"), True)


# The ORM.


def models(prefix):
    """Returns the classes of a small blog, whose tables have a prefix of the check."""

    class Base(DeclarativeBase):
        pass

    links = sa.Table(
        f"{prefix}_post_tag",
        Base.metadata,
        sa.Column("post_id", sa.ForeignKey(f"{prefix}_post.id"), primary_key=True),
        sa.Column("tag_id", sa.ForeignKey(f"{prefix}_tag.id"), primary_key=True),
    )

    class Author(Base):
        __tablename__ = f"{prefix}_author"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(sa.String(50), unique=True)
        joined: Mapped[dt.datetime] = mapped_column(server_default=func.now())
        posts: Mapped[list["Post"]] = relationship(
            back_populates="author", cascade="all, delete-orphan", order_by="Post.id"
        )

    class Post(Base):
        __tablename__ = f"{prefix}_post"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str]
        level: Mapped[Level] = mapped_column(
            sa.Enum(Level, name=f"{prefix}_level"), default=Level.LOW
        )
        price: Mapped[Optional[Decimal]] = mapped_column(sa.Numeric(10, 2))
        author_id: Mapped[int] = mapped_column(sa.ForeignKey(f"{prefix}_author.id"))
        version: Mapped[int] = mapped_column(default=1)
        author: Mapped[Author] = relationship(back_populates="posts")
        tags: Mapped[list["Tag"]] = relationship(secondary=links, order_by="Tag.name")
        __mapper_args__ = {"version_id_col": version}

    class Tag(Base):
        __tablename__ = f"{prefix}_tag"
        id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
        name: Mapped[str]

    Base.metadata.create_all(ENGINE)
    return Author, Post, Tag


def filled(prefix):
    author, post, tag = models(prefix)
    with Session(ENGINE) as s:
        ann = author(name="ann")
        red, blue = tag(name="red"), tag(name="blue")
        ann.posts = [post(title="one", tags=[red, blue]), post(title="two", price=Decimal("9.50"))]
        s.add_all([ann, author(name="bob", posts=[post(title="three", level=Level.HIGH)])])
        s.commit()
    return author, post, tag


@check
def orm_relations(e):
    author, post, _ = filled("rel")
    with Session(e) as s:
        ann = s.scalars(select(author).where(author.name == "ann")).one()
        equal([p.title for p in ann.posts], ["one", "two"])
        equal([t.name for t in ann.posts[0].tags], ["blue", "red"])
        equal(ann.posts[1].price, Decimal("9.50"))
        assert isinstance(ann.joined, dt.datetime)
        high = s.scalars(select(post).where(post.level == Level.HIGH)).one()
        equal(high.author.name, "bob")


@check
def orm_eager_loading(e):
    author, post, _ = filled("eager")
    with Session(e) as s:
        query = select(author).options(selectinload(author.posts).joinedload(post.tags))
        found = s.scalars(query.order_by(author.name)).unique().all()
        equal([[len(p.tags) for p in a.posts] for a in found], [[2, 0], [0]])
        query = select(author).options(joinedload(author.posts)).order_by(author.id).limit(1)
        equal([a.name for a in s.scalars(query).unique()], ["ann"])


@check
def orm_updates_and_cascades(e):
    author, post, _ = filled("casc")
    with Session(e) as s:
        ann = s.scalars(select(author).where(author.name == "ann")).one()
        ann.posts[0].title = "changed"
        s.commit()
        equal(ann.posts[0].version, 2)
        ann.posts.pop()
        s.commit()
        equal(s.scalar(select(func.count()).select_from(post)), 2)
        s.delete(ann)
        s.commit()
        equal([p.title for p in s.scalars(select(post))], ["three"])


@check
def orm_stale_versions(e):
    from sqlalchemy.orm.exc import StaleDataError

    _, post, _ = filled("stale")
    with Session(e) as s, Session(e) as other:
        mine, theirs = s.get(post, 1), other.get(post, 1)
        other.rollback()
        theirs = other.get(post, 1)
        mine.title = "mine"
        s.commit()
        with other.no_autoflush:
            sa.orm.attributes.set_committed_value(theirs, "version", 1)
            theirs.title = "theirs"
            try:
                other.commit()
            except (StaleDataError, exc.OperationalError):
                return
    raise AssertionError("no error, expected StaleDataError")


@check
def orm_aggregates_and_aliases(e):
    author, post, _ = filled("agg")
    with Session(e) as s:
        query = (
            select(author.name, func.count(post.id))
            .join(author.posts)
            .group_by(author.id)
            .having(func.count(post.id) > 1)
        )
        equal(s.execute(query).all(), [("ann", 2)])
        other = aliased(post)
        query = (
            select(func.count()).select_from(post).join(other, post.author_id == other.author_id)
        )
        equal(s.scalar(query), 5)


@check
def orm_bulk_operations(e):
    author, post, _ = filled("mass")
    with Session(e) as s:
        s.execute(sa.insert(author), [{"name": f"a{i}"} for i in range(300)])
        s.execute(sa.update(post).where(post.level == Level.LOW).values(title=post.title + "!"))
        s.execute(sa.delete(author).where(author.name.like("a_%"), ~author.posts.any()))
        s.commit()
        equal(s.scalars(select(author.name).order_by(author.name)).all(), ["ann", "bob"])
        equal(s.scalars(select(post.title).order_by(post.id)).all(), ["one!", "two!", "three"])


@check
def orm_inheritance(e):
    class Base(DeclarativeBase):
        pass

    class Animal(Base):
        __tablename__ = "inh_animal"
        id: Mapped[int] = mapped_column(primary_key=True)
        kind: Mapped[str]
        __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}

    class Dog(Animal):
        __tablename__ = "inh_dog"
        id: Mapped[int] = mapped_column(sa.ForeignKey("inh_animal.id"), primary_key=True)
        breed: Mapped[str]
        __mapper_args__ = {"polymorphic_identity": "dog"}

    Base.metadata.create_all(e)
    with Session(e) as s:
        s.add_all([Animal(), Dog(breed="collie")])
        s.commit()
        found = s.scalars(select(Animal).order_by(Animal.id)).all()
        equal([type(a).__name__ for a in found], ["Animal", "Dog"])
        equal(found[1].breed, "collie")


@check
def the_asynchronous_engine(e):
    import asyncio

    from sqlalchemy.ext.asyncio import create_async_engine

    async def work():
        engine = create_async_engine(URL.replace("+psycopg", "+asyncpg"))
        async with engine.begin() as c:
            await c.execute(text("CREATE TABLE asynchronous (id serial PRIMARY KEY, j jsonb)"))
            t = sa.Table(
                "asynchronous",
                sa.MetaData(),
                sa.Column("id", sa.Integer, primary_key=True),
                sa.Column("j", pg.JSONB),
            )
            await c.execute(sa.insert(t), [{"j": {"a": 1}}, {"j": None}])
            rows = (await c.execute(select(t.c.j).order_by(t.c.id))).scalars().all()
        await engine.dispose()
        return list(rows)

    equal(asyncio.run(work()), [{"a": 1}, None])


# The Inspector.

REFLECTED = """
CREATE TABLE {0}_owner (id integer PRIMARY KEY);
CREATE TABLE {0} (
  id bigint GENERATED BY DEFAULT AS IDENTITY,
  serial serial,
  name varchar(40) DEFAULT 'x' NOT NULL,
  price numeric(10, 2),
  at timestamp with time zone DEFAULT now(),
  tags text[],
  data jsonb,
  owner integer,
  CONSTRAINT {0}_pk PRIMARY KEY (id),
  CONSTRAINT {0}_name UNIQUE (name, price),
  CONSTRAINT {0}_positive CHECK (price > 0),
  CONSTRAINT {0}_fk FOREIGN KEY (owner) REFERENCES {0}_owner (id)
    ON DELETE CASCADE ON UPDATE SET NULL DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX {0}_at ON {0} (at DESC, name);
CREATE UNIQUE INDEX {0}_part ON {0} (owner) WHERE price > 10;
COMMENT ON TABLE {0} IS 'a table';
COMMENT ON COLUMN {0}.name IS 'a column';
"""


def inspector(e, name):
    """Creates the tables of a check, and returns an Inspector."""
    with e.begin() as c:
        for statement in REFLECTED.format(name).split(";"):
            if statement.strip():
                c.exec_driver_sql(statement)
    return sa.inspect(e)


@check
def inspect_names(e):
    names = inspector(e, "r_names").get_table_names()
    assert {"r_names", "r_names_owner"} <= set(names), names
    assert "public" in sa.inspect(e).get_schema_names()


@check
def inspect_columns(e):
    columns = {c["name"]: c for c in inspector(e, "r_cols").get_columns("r_cols")}
    expected = "id serial name price at tags data owner".split()
    equal(list(columns), expected)
    kinds = [str(columns[name]["type"]) for name in expected]
    equal(
        kinds,
        [
            "BIGINT",
            "INTEGER",
            "VARCHAR(40)",
            "NUMERIC(10, 2)",
            "TIMESTAMP",
            "ARRAY",
            "JSONB",
            "INTEGER",
        ],
    )
    equal(columns["name"]["default"], "'x'::character varying")
    equal(columns["serial"]["default"], "nextval('r_cols_serial_seq'::regclass)")
    equal((columns["name"]["nullable"], columns["price"]["nullable"]), (False, True))
    equal(columns["name"]["comment"], "a column")
    equal(columns["id"]["identity"]["always"], False)
    equal(columns["at"]["type"].timezone, True)


@check
def inspect_keys(e):
    i = inspector(e, "r_keys")
    pk = i.get_pk_constraint("r_keys")
    equal((pk["constrained_columns"], pk["name"]), (["id"], "r_keys_pk"))
    (unique,) = i.get_unique_constraints("r_keys")
    equal((unique["name"], unique["column_names"]), ("r_keys_name", ["name", "price"]))


@check
def inspect_foreign_keys(e):
    (key,) = inspector(e, "r_fk").get_foreign_keys("r_fk")
    equal((key["name"], key["constrained_columns"]), ("r_fk_fk", ["owner"]))
    equal((key["referred_table"], key["referred_columns"]), ("r_fk_owner", ["id"]))
    options = {
        "onupdate": "SET NULL",
        "ondelete": "CASCADE",
        "deferrable": True,
        "initially": "DEFERRED",
    }
    equal(key["options"], options)


@check
def inspect_checks(e):
    (found,) = inspector(e, "r_check").get_check_constraints("r_check")
    equal((found["name"], found["sqltext"]), ("r_check_positive", "price > 0::numeric"))


@check
def inspect_indexes(e):
    indexes = {i["name"]: i for i in inspector(e, "r_index").get_indexes("r_index")}
    equal(sorted(indexes), ["r_index_at", "r_index_name", "r_index_part"])
    equal(indexes["r_index_at"]["column_names"], ["at", "name"])
    equal(indexes["r_index_at"]["column_sorting"], {"at": ("desc",)})
    equal(indexes["r_index_part"]["unique"], True)
    equal(indexes["r_index_part"]["dialect_options"]["postgresql_where"], "(price > (10)::numeric)")


@check
def inspect_the_place_of_nulls(e):
    with e.begin() as c:
        c.exec_driver_sql("CREATE TABLE r_nulls (a int, b int)")
        c.exec_driver_sql("CREATE INDEX r_nulls_i ON r_nulls (a DESC NULLS LAST, b NULLS FIRST)")
    (index,) = sa.inspect(e).get_indexes("r_nulls")
    sorting = {"a": ("desc", "nulls_last"), "b": ("nulls_first",)}
    equal(index["column_sorting"], sorting)


@check
def inspect_comments(e):
    equal(inspector(e, "r_note").get_table_comment("r_note"), {"text": "a table"})


@check
def inspect_views(e):
    with e.begin() as c:
        c.exec_driver_sql("CREATE VIEW r_view AS SELECT 1 AS a")
    i = sa.inspect(e)
    assert "r_view" in i.get_view_names(), i.get_view_names()
    assert "SELECT 1 AS a" in i.get_view_definition("r_view"), i.get_view_definition("r_view")
    equal([c["name"] for c in i.get_columns("r_view")], ["a"])


@check
def inspect_materialized_views(e):
    with e.begin() as c:
        c.exec_driver_sql("CREATE MATERIALIZED VIEW r_mview AS SELECT 1 AS a")
    assert "r_mview" in sa.inspect(e).get_materialized_view_names()


@check
def inspect_enums(e):
    with e.begin() as c:
        c.exec_driver_sql("CREATE TYPE r_mood AS ENUM ('sad', 'happy')")
    found = {i["name"]: i for i in sa.inspect(e).get_enums()}
    equal((found["r_mood"]["labels"], found["r_mood"]["visible"]), (["sad", "happy"], True))


@check
def inspect_domains(e):
    with e.begin() as c:
        c.exec_driver_sql("CREATE DOMAIN r_dom AS int CHECK (VALUE > 0)")
    assert "r_dom" in [d["name"] for d in sa.inspect(e).get_domains()]


@check
def inspect_sequences(e):
    with e.begin() as c:
        c.exec_driver_sql("CREATE SEQUENCE r_seq")
    assert "r_seq" in sa.inspect(e).get_sequence_names()


@check
def inspect_schemas(e):
    with e.begin() as c:
        c.exec_driver_sql("CREATE SCHEMA r_schema")
        c.exec_driver_sql("CREATE TABLE r_schema.t (id int PRIMARY KEY)")
    i = sa.inspect(e)
    assert "r_schema" in i.get_schema_names()
    equal(i.get_table_names(schema="r_schema"), ["t"])
    equal([c["name"] for c in i.get_columns("t", schema="r_schema")], ["id"])


@check
def inspect_several_tables_at_once(e):
    i = inspector(e, "r_multi")
    names = ["r_multi", "r_multi_owner"]
    for ask in (
        i.get_multi_columns,
        i.get_multi_pk_constraint,
        i.get_multi_foreign_keys,
        i.get_multi_indexes,
        i.get_multi_unique_constraints,
        i.get_multi_check_constraints,
        i.get_multi_table_comment,
        i.get_multi_table_options,
    ):
        equal(sorted(table for _, table in ask(filter_names=names)), names)


@check
def reflect_and_create_again(e):
    inspector(e, "r_again")
    meta = sa.MetaData()
    meta.reflect(e, only=["r_again", "r_again_owner"])
    meta.drop_all(e)
    with e.begin() as c:
        c.exec_driver_sql("CREATE SEQUENCE r_again_serial_seq")
    meta.create_all(e)
    equal(len(sa.inspect(e).get_columns("r_again")), 8)


# Alembic.

MIGRATION = """
from alembic import op
import sqlalchemy as sa
revision = "{revision}"
down_revision = {before!r}
def upgrade():
{up}
def downgrade():
{down}
"""

STEPS = [
    (
        """
op.create_table("m_user",
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(20), nullable=False),
    sa.Column("kind", sa.Enum("a", "b", name="m_kind"), server_default="a"))
op.create_index("m_user_name", "m_user", ["name"], unique=True)
""",
        """
op.drop_table("m_user")
op.execute("DROP TYPE m_kind")
""",
    ),
    (
        """
op.add_column("m_user", sa.Column("age", sa.Integer, server_default="7", nullable=False))
op.alter_column("m_user", "name", type_=sa.Text, existing_type=sa.String(20))
op.alter_column("m_user", "age", new_column_name="years")
op.create_check_constraint("m_user_years", "m_user", "years >= 0")
op.create_table("m_note", sa.Column("id", sa.BigInteger, primary_key=True),
    sa.Column("user_id", sa.Integer))
op.create_foreign_key("m_note_user", "m_note", "m_user", ["user_id"], ["id"], ondelete="CASCADE")
op.create_unique_constraint("m_note_once", "m_note", ["user_id"])
op.bulk_insert(sa.table("m_user", sa.column("name", sa.Text)), [dict(name="x"), dict(name="y")])
""",
        """
op.drop_constraint("m_note_once", "m_note", type_="unique")
op.drop_constraint("m_note_user", "m_note", type_="foreignkey")
op.drop_table("m_note")
op.drop_constraint("m_user_years", "m_user", type_="check")
op.execute("DELETE FROM m_user")
op.alter_column("m_user", "years", new_column_name="age")
op.alter_column("m_user", "name", type_=sa.String(20), existing_type=sa.Text)
op.drop_column("m_user", "age")
""",
    ),
    (
        """
op.rename_table("m_note", "m_remark")
op.alter_column("m_user", "name", nullable=True, server_default="none")
op.execute("ALTER TYPE m_kind ADD VALUE 'c'")
op.create_index("m_user_lower", "m_user", [sa.text("lower(name)")])
op.create_table_comment("m_user", "people")
""",
        """
op.drop_table_comment("m_user")
op.drop_index("m_user_lower")
op.alter_column("m_user", "name", nullable=False, server_default=None)
op.rename_table("m_remark", "m_note")
""",
    ),
]

ENV = """
from alembic import context
import sqlalchemy as sa
connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=sa.MetaData())
with context.begin_transaction():
    context.run_migrations()
"""


def migrations(folder):
    from alembic.config import Config

    os.makedirs(f"{folder}/versions")
    with open(f"{folder}/env.py", "w") as file:
        file.write(ENV)
    before = None
    for at, (up, down) in enumerate(STEPS, 1):
        indented = [
            "".join(f"    {line}\n" for line in part.strip().split("\n")) for part in (up, down)
        ]
        with open(f"{folder}/versions/{at}.py", "w") as file:
            file.write(
                MIGRATION.format(revision=f"r{at}", before=before, up=indented[0], down=indented[1])
            )
        before = f"r{at}"
    config = Config()
    config.set_main_option("script_location", folder)
    return config


@check
def alembic_up_and_down(e):
    from alembic import command

    with tempfile.TemporaryDirectory() as folder, e.connect() as c:
        config = migrations(folder)
        config.attributes["connection"] = c
        command.upgrade(config, "r1")
        command.upgrade(config, "head")
        equal(
            c.execute(text("SELECT name, years FROM m_user ORDER BY id")).all(),
            [("x", 7), ("y", 7)],
        )
        equal(c.scalar(text("SELECT version_num FROM alembic_version")), "r3")
        c.commit()
        command.downgrade(config, "base")
        equal([t for t in sa.inspect(c).get_table_names() if t.startswith("m_")], [])


@check
def alembic_finds_differences(e):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    meta = sa.MetaData()
    sa.Table(
        "a_same",
        meta,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(10), nullable=False, index=True),
        sa.Column("price", sa.Numeric(10, 2), server_default="0"),
        sa.Column("other", sa.ForeignKey("a_same.id")),
    )
    meta.create_all(e)
    ours = {"include_name": lambda name, kind, _: kind != "table" or name.startswith("a_")}
    with e.connect() as c:
        context = MigrationContext.configure(
            c, opts={"compare_type": True, "compare_server_default": True, **ours}
        )
        equal(compare_metadata(context, meta), [])
        c.rollback()
        with e.begin() as other:
            other.exec_driver_sql("ALTER TABLE a_same ADD COLUMN extra int")
        equal([d[0] for d in compare_metadata(context, meta)], ["remove_column"])


checks.run(lambda: ENGINE, lambda e: e.dispose())
