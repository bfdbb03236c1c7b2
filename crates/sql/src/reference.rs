//! Renders `docs/sql-reference.md` from the catalogs: a test compares the page with them, and
//! writes it if `MERIDIAN_WRITE_DOCS` is set.

use crate::function::{self, Volatility};
use crate::settings;
use crate::system::functions::{self, Kind, Procedure};
use crate::system::shown_types;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Statements that are built, by example. `tests/statements/reference.rs` runs them.
const STATEMENTS: &str = include_str!("reference.sql");

const INTRODUCTION: &str = "\
# SQL reference

The statements, types, functions and settings that are built. They are PostgreSQL's unless
[getting started](getting-started.md) names a difference. A statement or clause that is not built is
refused with the error 0A000, which names it. A function or operator that is not listed here does
not exist (42883), nor does a type or a collation (42704).

This page is written from the catalogs of the program; a test compares it with them.
`MERIDIAN_WRITE_DOCS=1 cargo test -p meridian-sql reference` writes it again.
";

const OPERATORS: &str = "\
Comparisons (`=`, `<>`, `<`, `<=`, `>`, `>=`, `IS DISTINCT FROM`, `BETWEEN`, `IN`, `ANY`, `ALL`) are
those of any type with an order, of arrays and of rows. Numbers have `+`, `-`, `*`, `/` and `%`.
`AND`, `OR`, `NOT`, `IS`, `LIKE`, `ILIKE`, `SIMILAR TO`, `CASE`, `COALESCE`, `NULLIF`, `GREATEST`,
`LEAST`, `EXISTS` and `CAST` are syntax. The other operators, by their operands:
";

fn statements(page: &mut String) {
    let mut sections = STATEMENTS.split("-- ");
    sections.next();
    for section in sections {
        let (title, examples) = section.split_once('\n').expect("a title and its statements");
        let _ = write!(page, "\n### {title}\n\n```sql\n{}\n```\n", examples.trim());
    }
}

/// Names of one line each, with the types of their forms.
fn forms(page: &mut String, all: &[&Procedure]) {
    let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in all {
        let (arguments, result) = (one.arguments(), one.result());
        let form = format!("`({arguments})` → `{result}`");
        let forms = by_name.entry(&one.name).or_default();
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    page.push_str("\n| name | arguments → result |\n|---|---|\n");
    for (name, forms) in by_name {
        let _ = writeln!(page, "| `{name}` | {} |", forms.join("<br>"));
    }
}

fn operators(page: &mut String) {
    let mut by_sign: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    // Subscripts are functions of the catalog, too.
    let is_sign = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_punctuation() && !matches!(c, '_' | '['))
    };
    for function in function::all().filter(|function| is_sign(function.name)) {
        let types: Vec<String> =
            function.params.iter().map(|it| functions::shown_param(*it)).collect();
        let form = match types.as_slice() {
            [left, right] => format!("{left}, {right}"),
            _ => types.join(", "),
        };
        let forms = by_sign.entry(function.name).or_default();
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    page.push_str("\n| operator | operands |\n|---|---|\n");
    for (sign, forms) in by_sign {
        // A bar ends a cell.
        let sign = sign.replace('|', "\\|");
        let _ = writeln!(page, "| `{sign}` | {} |", forms.join("; "));
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Statements\n");
    statements(&mut page);
    page.push_str(
        "\n## Types\n\nEach has an array type, `type[]`.\n\n| type | in `pg_type` |\n|---|---|\n",
    );
    for (shown, name) in shown_types() {
        let _ = writeln!(page, "| `{shown}` | `{name}` |");
    }
    let _ = write!(page, "\n## Operators\n\n{OPERATORS}");
    operators(&mut page);
    let all = functions::callable();
    let of = |is_its: &dyn Fn(&Procedure) -> bool| -> Vec<&Procedure> {
        all.iter().copied().filter(|one| is_its(one)).collect()
    };
    for (title, volatility) in [
        ("Functions whose value follows from their arguments", Volatility::Immutable),
        ("Functions of the session, its settings, and the catalog", Volatility::Stable),
        (
            "Functions whose value differs from call to call, or that have effects",
            Volatility::Volatile,
        ),
    ] {
        let _ = write!(page, "\n## {title}\n");
        forms(&mut page, &of(&|one| one.kind == Kind::Plain && one.volatility == volatility));
    }
    page.push_str("\n## Aggregate functions\n\nEach is a window function, too, unless it is of an ordered set.\n");
    forms(&mut page, &of(&|one| matches!(one.kind, Kind::Aggregate(..))));
    page.push_str("\n## Window functions\n");
    forms(&mut page, &of(&|one| one.kind == Kind::Window));
    page.push_str("\n## Settings\n\n| setting | default |\n|---|---|\n");
    for (name, value) in settings::DEFAULTS {
        let _ = writeln!(
            page,
            "| `{name}` | {} |",
            if value.is_empty() { String::new() } else { format!("`{value}`") }
        );
    }
    page
}

#[test]
fn the_reference_lists_what_is_built() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql-reference.md");
    let page = page();
    if std::env::var_os("MERIDIAN_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).expect("the page");
    let differs = page.lines().zip(written.lines()).find(|(now, then)| now != then);
    assert!(
        page == written,
        "docs/sql-reference.md differs from the catalogs ({differs:?}): \
         MERIDIAN_WRITE_DOCS=1 cargo test -p meridian-sql reference writes it"
    );
}
