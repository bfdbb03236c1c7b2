use super::options::Options;
use super::records::Records;
use super::to::Writer;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::response::Column;
use crate::types::Type;
use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

fn options(text: &str, to: bool) -> Result<Options, SqlError> {
    let direction = if to { "TO STDOUT" } else { "FROM STDIN" };
    let sql = format!("COPY t {direction} {text};");
    let mut parsed = Parser::parse_sql(&PostgreSqlDialect {}, &sql).expect("the text parses");
    let Statement::Copy { options, legacy_options, .. } = parsed.remove(0) else { unreachable!() };
    Options::read(&options, &legacy_options, to)
}

/// Reads data in two parts, cut in any place: the rows are the same wherever that is.
fn read(text: &str, columns: &[&str], data: &[u8]) -> Result<Vec<String>, String> {
    let read = |cut: usize| {
        let mut records = Records::new(options(text, false)?, columns)?;
        let mut rows = Vec::new();
        for (part, is_last) in [(&data[..cut], false), (&data[cut..], false), (&[][..], true)] {
            records.push(part);
            while let Some(record) = records.next(is_last)? {
                let values = record.values.iter().map(|value| match value {
                    Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
                    None => "NULL".to_owned(),
                });
                rows.push(format!("{}: {}", record.line, values.collect::<Vec<_>>().join(" ")));
            }
        }
        Ok(rows)
    };
    let message = |found: Result<Vec<String>, SqlError>| found.map_err(|error| error.message);
    let whole = message(read(data.len()));
    for cut in 0..data.len() {
        assert_eq!(message(read(cut)), whole, "cut at {cut}");
    }
    whole
}

#[track_caller]
fn reads(text: &str, columns: &[&str], data: &str, rows: &[&str]) {
    let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    assert_eq!(read(text, columns, data.as_bytes()), Ok(rows), "{data:?}");
}

#[track_caller]
fn fails(text: &str, columns: &[&str], data: &[u8], message: &str) {
    assert_eq!(read(text, columns, data), Err(message.to_owned()), "{data:?}");
}

#[test]
fn lines_of_text() {
    reads("", &["a", "b"], "1\tx\n\\N\t\\\\N\n", &["1: \"1\" \"x\"", "2: NULL \"\\\\N\""]);
    reads("", &["a"], "x\r\ny", &["1: \"x\"", "2: \"y\""]);
    reads("", &["a"], "x\ry\r", &["1: \"x\"", "2: \"y\""]);
    reads("", &["a"], "x\\\ny\\tz\\x41\\101\n", &["1: \"x\\ny\\tzAA\""]);
    reads("", &["a"], "1\n\\.\nnothing of this\tis read\n", &["1: \"1\""]);
    reads("(header, null '', delimiter ',')", &["a", "b"], "a,b\n1,\n", &["2: \"1\" NULL"]);
    reads("", &["a"], "\n\n", &["1: \"\"", "2: \"\""]);
    reads("", &[], "\n", &["1: "]);
    fails("", &["a", "b"], b"1\n", "missing data for column \"b\"");
    fails("", &["a"], b"1\t2\n", "extra data after last expected column");
    fails("", &["a"], b"1\n2\r\n", "literal carriage return found in data");
    fails("", &["a"], b"1\r\n2\n", "literal newline found in data");
}

#[test]
fn records_of_csv() {
    reads("csv", &["a", "b"], "1,x\n,\"\"\n", &["1: \"1\" \"x\"", "2: NULL \"\""]);
    reads("csv", &["a"], "\"a\nb\"\"c\"\nd\"e,\"f\n", &["2: \"a\\nb\\\"c\"", "3: \"de,f\""]);
    reads("csv", &["a"], "\"\r\n\"\r\nx\r\n", &["2: \"\\r\\n\"", "3: \"x\""]);
    reads(
        "(format csv, quote '''', escape '\\')",
        &["a", "b"],
        "'a\\'\\\\',\\b\n'\\n\n',1\n",
        &["1: \"a'\\\\\" \"\\\\b\"", "3: \"\\\\n\\n\" \"1\""],
    );
    reads(
        "(format csv, null 'n', force_not_null (a), force_null (b))",
        &["a", "b", "c"],
        "n,\"n\",\"n\"\nn,n,n\n",
        &["1: \"n\" NULL \"n\"", "2: \"n\" NULL NULL"],
    );
    reads("csv header", &["a"], "\"a\nb\"\n1\n\\.\n2\n", &["3: \"1\""]);
    reads("csv", &["a"], "\"\\.\"\n\\.x\n", &["1: \"\\\\.\"", "2: \"\\\\.x\""]);
    fails("csv", &["a"], b"\"open\n1\n", "unterminated CSV quoted field");
    fails("csv", &["a"], b"1\n2\r", "unquoted carriage return found in data");
}

fn columns() -> [Column; 3] {
    [Column::new("n", Type::Int4), Column::new("t", Type::Text), Column::new("b,", Type::Bool)]
}

fn written(text: &str, rows: &[Vec<Datum>]) -> Vec<u8> {
    let (options, columns) = (options(text, true).expect("the options"), columns());
    Writer::new(&options, &columns, Zone::utc())
        .expect("the columns")
        .records(rows, true, true)
        .concat()
}

fn rows() -> Vec<Vec<Datum>> {
    vec![
        vec![Datum::Int4(1), Datum::text("a\tb\\ \"c\",\nd"), Datum::Bool(true)],
        vec![Datum::Null, Datum::text(""), Datum::Null],
    ]
}

#[test]
fn rows_are_written_as_postgresql_writes_them() {
    for (options, expected) in [
        ("", "1\ta\\tb\\\\ \"c\",\\nd\tt\n\\N\t\t\\N\n"),
        ("(header, delimiter ',')", "n,t,b\\,\n1,a\\tb\\\\ \"c\"\\,\\nd,t\n\\N,,\\N\n"),
        ("csv header", "n,t,\"b,\"\n1,\"a\tb\\ \"\"c\"\",\nd\",t\n,\"\",\n"),
        ("(format csv, force_quote (n), null 'x')", "\"1\",\"a\tb\\ \"\"c\"\",\nd\",t\nx,,x\n"),
        ("(format csv, quote '''', escape '\\')", "1,'a\tb\\\\ \"c\",\nd',t\n,'',\n"),
    ] {
        let found = String::from_utf8(written(options, &rows())).expect("text");
        assert_eq!(found, expected, "{options}");
    }
    let only = [Column::new("t", Type::Text)];
    let csv = options("csv", true).expect("the options");
    let writer = Writer::new(&csv, &only, Zone::utc()).expect("the column");
    assert_eq!(writer.records(&[vec![Datum::text("\\.")]], false, false), [b"\"\\.\"\n".to_vec()]);
}

#[test]
fn binary_rows_are_read_as_they_are_written() {
    let data = written("binary", &rows());
    let expected =
        ["1: \"\\0\\0\\0\\u{1}\" \"a\\tb\\\\ \\\"c\\\",\\nd\" \"\\u{1}\"", "2: NULL \"\" NULL"];
    let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
    let names = ["n", "t", "b"];
    assert_eq!(read("binary", &names, &data), Ok(expected.clone()));
    let unended = &data[..data.len() - 2];
    assert_eq!(read("binary", &names, unended), Ok(expected), "the end may be missing");
    fails("binary", &names, &data[..data.len() - 3], "unexpected EOF in COPY data");
    fails("binary", &names, b"PGCOPY\n\xff\n", "COPY file signature not recognized");
    fails("binary", &names, b"PGCO", "COPY file signature not recognized");
    fails("binary", &names[..2], &data, "row field count is 3, expected 2");
    fails("binary", &names, &[&data[..], b"x"].concat(), "received copy data after EOF marker");
    let mut flagged = data.clone();
    flagged[11] = 1;
    fails("binary", &names, &flagged, "unrecognized critical flags in COPY file header");
    let mut negative = data.clone();
    negative[21..25].copy_from_slice(&(-2_i32).to_be_bytes());
    fails("binary", &names, &negative, "invalid field size");
    let mut huge = data;
    huge[21..25].copy_from_slice(&i32::MAX.to_be_bytes());
    fails("binary", &names, &huge, "a value of COPY is longer than 64 MB");
}

#[test]
fn options_that_contradict_one_another() {
    for (text, to, sqlstate, message) in [
        ("(format xml)", false, "22023", "COPY format \"xml\" not recognized"),
        ("(format csv, format text)", false, "42601", "conflicting or redundant options"),
        ("(format binary, null 'x')", true, "42601", "cannot specify NULL in BINARY mode"),
        ("(format binary, header)", true, "0A000", "cannot specify HEADER in BINARY mode"),
        ("(delimiter 'a')", true, "22023", "COPY delimiter cannot be \"a\""),
        ("(quote 'a')", true, "0A000", "COPY quote available only in CSV mode"),
        (
            "(format csv, delimiter '\"')",
            true,
            "22023",
            "COPY delimiter and quote must be different",
        ),
        (
            "(format csv, null 'a,b')",
            true,
            "0A000",
            "COPY delimiter must not appear in the NULL specification",
        ),
        (
            "(format csv, force_quote (a))",
            false,
            "0A000",
            "COPY force quote only available using COPY TO",
        ),
        (
            "(format csv, force_null (a))",
            true,
            "0A000",
            "COPY force null only available using COPY FROM",
        ),
        ("(force_not_null (a))", false, "0A000", "COPY force not null available only in CSV mode"),
        ("(encoding 'latin1')", false, "0A000", "COPY with the encoding latin1 is not supported"),
        ("gzip", false, "0A000", "the COPY option GZIP is not supported"),
    ] {
        let error = options(text, to).expect_err(text);
        assert_eq!((error.sqlstate, error.message.as_str()), (sqlstate, message), "{text}");
    }
}
