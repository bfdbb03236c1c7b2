//! The definitions of constraints, indexes and columns, as `pg_get_constraintdef` and others show
//! them.

use super::Catalog;
use super::describe::quoted;
use crate::catalog::{ColumnDef, Table};
use crate::constraint::Check;
use crate::datetime::Zone;
use crate::deparse::{self, Columns, Names, Place, Shown, Style};
use crate::domain::Domain;
use crate::index::{Index, IndexPart};
use crate::names::{self, NamedTypes, Qualified};
use crate::operator_class;
use crate::sequence;
use crate::types::Type;

impl Catalog {
    /// Returns the types that a stored text names by their ids, and those of the columns.
    fn types_in(&self, text: &str, columns: Columns<'_>) -> NamedTypes {
        let ids = names::references(text).filter_map(|part| part.id);
        let by_id = ids.filter_map(|id| self.types.iter().find(|ty| ty.id() == id)).copied();
        let mut all: Vec<_> = by_id.collect();
        match columns {
            Columns::Of(table) => all.extend(table.user_types()),
            Columns::Value(ty) => ty.each_user_type(&mut all),
            Columns::None => {}
        }
        all.into_iter().map(|ty| (Qualified::of(ty.name()), ty)).collect()
    }

    /// Shows a stored expression. `None` if it cannot be shown as PostgreSQL would.
    fn deparsed(
        &self,
        text: &str,
        columns: Columns<'_>,
        place: Place,
        (style, zone): (Style, &Zone),
    ) -> Option<Shown> {
        let modifier = |ty: Type| Some(ty.modifier().into());
        let names = Names {
            ty: &|ty| self.format_type(ty.oid().into(), modifier(ty)),
            domain: &|domain: Domain| self.format_type(domain.id().into(), None),
            relation: &|id| self.relation_name(id.into()),
            zone,
        };
        deparse::shown(text, columns, self.types_in(text, columns), place, style, &names)
    }

    /// Shows a stored condition.
    fn shown_condition(&self, text: &str, columns: Columns<'_>, style: (Style, &Zone)) -> String {
        match self.deparsed(text, columns, Place::Condition, style) {
            Some(shown) => shown.text,
            None if style.0 == Style::Pretty => self.shown_text(text),
            None => format!("({})", self.shown_text(text)),
        }
    }

    /// Shows the condition of a check constraint of a table.
    pub(super) fn shown_check(&self, check: &Check, table: &Table, zone: &Zone) -> String {
        self.shown_condition(&check.text, Columns::Of(table), (Style::Plain, zone))
    }

    /// Shows the condition of a check constraint of a domain.
    pub(super) fn shown_domain_check(&self, check: &Check, domain: Domain, zone: &Zone) -> String {
        self.shown_condition(&check.text, Columns::Value(domain.base()), (Style::Plain, zone))
    }

    /// Returns the expression of a generated column.
    pub(super) fn shown_generated(
        &self,
        table: &Table,
        column: &ColumnDef,
        zone: &Zone,
    ) -> Option<String> {
        self.generated_in(table, column, (Style::Plain, zone))
    }

    fn generated_in(
        &self,
        table: &Table,
        column: &ColumnDef,
        style: (Style, &Zone),
    ) -> Option<String> {
        let text = column.generated.as_deref()?;
        let shown = self.deparsed(text, Columns::Of(table), Place::Value(column.ty), style);
        Some(shown.map_or_else(|| self.shown_text(text), |shown| shown.text))
    }

    /// Shows the expressions of an index; `None` if it has none.
    pub(super) fn shown_keys(
        &self,
        table: &Table,
        index: &Index,
        style: (Style, &Zone),
    ) -> Option<String> {
        let all = index.expressions.iter().map(|text| {
            let shown = self.deparsed(text, Columns::Of(table), Place::Key, style);
            shown.map_or_else(|| self.shown_text(text), |shown| shown.text)
        });
        let all: Vec<_> = all.collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Shows the condition of a partial index.
    pub(super) fn shown_predicate(
        &self,
        table: &Table,
        index: &Index,
        style: (Style, &Zone),
    ) -> Option<String> {
        let text = index.predicate.as_deref()?;
        Some(self.shown_condition(text, Columns::Of(table), style))
    }

    /// Returns a column's DEFAULT. An identity column has none.
    pub(super) fn shown_column_default(&self, column: &ColumnDef, zone: &Zone) -> Option<String> {
        self.default_in(column, (Style::Plain, zone))
    }

    fn default_in(&self, column: &ColumnDef, style: (Style, &Zone)) -> Option<String> {
        let default = column.default.as_deref().filter(|_| column.identity.is_none())?.trim();
        let is_plain = column.ty.modifier() < 0 && column.domain.is_none();
        if is_plain && default.eq_ignore_ascii_case("null") {
            return None;
        }
        let place = Place::Value(column.ty);
        if let Some(shown) = self.deparsed(default, Columns::None, place, style) {
            return Some(shown.text);
        }
        let mut shown = default.to_owned();
        if default.contains("::REGCLASS") {
            for sequence in &self.sequences {
                let name = self.shown_relation(sequence.schema, &sequence.name);
                let name = format!("'{}'::regclass", name.replace('\'', "''"));
                shown = shown.replace(&sequence::reference(sequence.id), &name);
            }
        }
        let shown = self.shown_text(&shown);
        let ty = || self.format_type(column.ty.oid().into(), Some(-1));
        Some(if is_literal(default) { format!("{shown}::{}", ty()) } else { shown })
    }

    /// Returns the pretty form of an expression of a relation, which a system table gives in the
    /// other form. A text that is none of its expressions stays.
    pub(crate) fn pretty_expression(&self, text: &str, relation: i64, zone: &Zone) -> String {
        let Some(table) = self.table(relation) else { return text.to_owned() };
        let (plain, pretty) = ((Style::Plain, zone), (Style::Pretty, zone));
        let find = |show: &dyn Fn((Style, &Zone)) -> Option<String>| {
            if show(plain).as_deref() == Some(text) { show(pretty) } else { None }
        };
        let columns = || {
            let of_column = |column| {
                let default = find(&|style| self.default_in(column, style));
                default.or_else(|| find(&|style| self.generated_in(table, column, style)))
            };
            table.columns.iter().find_map(of_column)
        };
        let checks = || {
            table.checks.iter().find_map(|check| {
                let columns = Columns::Of(table);
                find(&|style| Some(self.shown_condition(&check.text, columns, style)))
            })
        };
        let indexes = || {
            table.indexes.iter().find_map(|index| {
                let predicate = find(&|style| self.shown_predicate(table, index, style));
                predicate.or_else(|| find(&|style| self.shown_keys(table, index, style)))
            })
        };
        columns().or_else(checks).or_else(indexes).unwrap_or_else(|| text.to_owned())
    }

    /// Returns the definition of a constraint, by its id.
    pub(crate) fn constraint_definition(
        &self,
        id: i64,
        is_pretty: bool,
        zone: &Zone,
    ) -> Option<String> {
        let of_tables = self.tables.iter();
        let mut foreign =
            of_tables.flat_map(|table| table.foreign.iter().map(move |foreign| (table, foreign)));
        if let Some((table, foreign)) = foreign.find(|(_, it)| i64::from(it.id) == id) {
            let parent = self.table(foreign.parent.into())?;
            let parent_name = self.shown_relation(parent.schema, &parent.name);
            return Some(foreign.definition(table, parent, &parent_name));
        }
        let of_tables = self
            .tables
            .iter()
            .flat_map(|table| table.checks.iter().map(move |check| (check, Columns::Of(table))));
        let of_domains = self.domains().flat_map(|domain| {
            let checks = domain.descriptor().checks.iter();
            checks.map(move |check| (check, Columns::Value(domain.base())))
        });
        let mut checks = of_tables.chain(of_domains);
        if let Some((check, columns)) = checks.find(|(check, _)| i64::from(check.id) == id) {
            let style = (Style::of(is_pretty), zone);
            return Some(check.definition(&self.shown_condition(&check.text, columns, style)));
        }
        let (table, index) = self.index(id)?;
        let kind = match table.is_primary(index) {
            true => "PRIMARY KEY",
            false if index.nulls_not_distinct => "UNIQUE NULLS NOT DISTINCT",
            false => "UNIQUE",
        };
        let deferrable = match index.deferrable {
            Some(true) => " DEFERRABLE INITIALLY DEFERRED",
            Some(false) => " DEFERRABLE",
            None => "",
        };
        let parts = self.parts(table, index, (Style::Plain, zone), false);
        Some(format!("{kind} ({parts}){deferrable}"))
    }

    /// Returns the definition of an index, or the column of its part, counted from 1.
    pub(crate) fn index_definition(
        &self,
        id: i64,
        column: i64,
        is_pretty: bool,
        zone: &Zone,
    ) -> Option<String> {
        let (table, index) = self.index(id)?;
        let style = (Style::of(is_pretty), zone);
        if column > 0 {
            let part = index.columns.get(usize::try_from(column - 1).ok()?)?;
            return Some(self.part_of(table, index, *part, style, false));
        }
        Some(self.definition_of(table, index, style))
    }

    /// Returns the `CREATE INDEX …` of an index.
    pub(super) fn definition_of(
        &self,
        table: &Table,
        index: &Index,
        style: (Style, &Zone),
    ) -> String {
        let unique = if index.is_declared_unique() { "UNIQUE " } else { "" };
        let parts = self.parts(table, index, style, true);
        let is_found = style.0 == Style::Pretty && self.is_visible(table.id.into());
        let mut out = format!(
            "CREATE {unique}INDEX {} ON {} USING btree ({parts})",
            quoted(&index.name),
            self.shown(table.schema, &table.name, is_found)
        );
        if !index.included.is_empty() {
            let name = |column: &u32| quoted(&table.columns[*column as usize].name);
            let names: Vec<String> = index.included.iter().map(name).collect();
            out += &format!(" INCLUDE ({})", names.join(", "));
        }
        if index.nulls_not_distinct {
            out += " NULLS NOT DISTINCT";
        }
        if let Some(predicate) = &index.predicate {
            out += " WHERE ";
            out += &self.shown_condition(predicate, Columns::Of(table), style);
        }
        out
    }

    /// Shows a column of an index, or an expression: in parentheses, unless it is a call. Its
    /// collation is part of the definition of the whole index.
    fn part_of(
        &self,
        table: &Table,
        index: &Index,
        part: IndexPart,
        style: (Style, &Zone),
        is_whole: bool,
    ) -> String {
        let text = index.text_of(table, part);
        if part.column().is_some() {
            return quoted(text);
        }
        let shown = self.deparsed(text, Columns::Of(table), Place::Key, style);
        let shown = shown.unwrap_or_else(|| Shown {
            text: self.shown_text(text),
            is_call: index.call_of(table, part).is_some(),
            collation: None,
        });
        let text = if shown.is_call { shown.text } else { format!("({})", shown.text) };
        match shown.collation {
            Some(collation) if is_whole => format!("{text} COLLATE {collation}"),
            _ => text,
        }
    }

    fn parts(&self, table: &Table, index: &Index, style: (Style, &Zone), ordered: bool) -> String {
        let part = |part: &IndexPart| {
            let mut name = self.part_of(table, index, *part, style, true);
            let usual = operator_class::of_type(index.type_of(table, *part)).map(|it| it.oid);
            if let Some(class) = part.class.filter(|class| Some(*class) != usual) {
                let class = operator_class::of_id(class).map_or("?", |class| class.name);
                name += &format!(" {class}");
            }
            match (part.descending, part.nulls_reversed) {
                _ if !ordered => name,
                (false, false) => name,
                (true, false) => format!("{name} DESC"),
                (false, true) => format!("{name} NULLS FIRST"),
                (true, true) => format!("{name} DESC NULLS LAST"),
            }
        };
        index.columns.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

/// True if an expression is a string.
pub(super) fn is_literal(expr: &str) -> bool {
    let inside = expr.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    inside.is_some_and(|text| !text.replace("''", "").contains('\''))
}
