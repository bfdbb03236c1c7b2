//! Chooses the form of a function for a call, by PostgreSQL's rules (its `func_select_candidate`).

use super::{Function, Out, Param, json};
use crate::cast;
use crate::error::{SqlError, state};
use crate::types::{Object, Type};

/// A form of a function: its types.
pub(crate) trait Form {
    /// The types of its parameters.
    fn params(&self) -> &[Param];

    /// True if the last parameter may be repeated.
    fn is_variadic(&self) -> bool;

    /// The type of its result.
    fn result(&self) -> Out;

    /// True if it may have this number of arguments.
    fn takes(&self, count: usize) -> bool {
        match self.is_variadic() {
            true => count >= self.params().len(),
            false => count == self.params().len(),
        }
    }

    /// The type of a parameter.
    fn param(&self, at: usize) -> Param {
        self.params()[at.min(self.params().len().saturating_sub(1))]
    }
}

impl Form for Function {
    fn params(&self) -> &[Param] {
        self.params
    }

    fn is_variadic(&self) -> bool {
        self.variadic
    }

    fn result(&self) -> Out {
        self.result
    }
}

/// A call whose form is chosen: of a scalar function, an aggregate or a window function.
#[derive(Debug)]
pub(crate) struct Call<'f, F = Function> {
    pub(crate) function: &'f F,
    /// The type that each argument is converted to; `None` for an argument that stays as it is.
    pub(crate) params: Vec<Option<Type>>,
    pub(crate) result: Type,
}

/// The categories of types within which an unknown literal finds its type.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Category {
    Boolean,
    Numeric,
    Text,
    Time,
    Span,
    Network,
    Bits,
    Other,
}

fn category(ty: Type) -> Category {
    match ty.plain() {
        Type::Bool => Category::Boolean,
        ty if ty.is_number() || ty.is_oid() => Category::Numeric,
        ty if ty.is_text() => Category::Text,
        Type::Date | Type::Time | Type::Timestamp => Category::Time,
        Type::TimeTz | Type::TimestampTz => Category::Time,
        Type::Bit(_) | Type::Varbit(_) => Category::Bits,
        Type::Interval => Category::Span,
        Type::Inet | Type::Cidr => Category::Network,
        _ => Category::Other,
    }
}

/// True for the types that a conversion prefers.
fn is_preferred(ty: Type) -> bool {
    matches!(
        ty.plain(),
        Type::Bool
            | Type::Float8
            | Type::Oid
            | Type::Text
            | Type::TimestampTz
            | Type::Interval
            | Type::Inet
            | Type::Varbit(_)
    )
}

/// Chooses one of the forms of a function for arguments of these types; `None` for an undetermined
/// one.
/// Fails with 42883 if no form fits, with 42725 if several fit equally.
pub(crate) fn resolve(
    name: &str,
    forms: &[&'static Function],
    args: &[Option<Type>],
) -> Result<Call<'static>, SqlError> {
    let call = choose(name, forms, args)?;
    match args.iter().flatten().find(|ty| call.function.compares && !ty.has_order()) {
        Some(ty) => Err(no_equality(*ty)),
        None => Ok(call),
    }
}

/// Returns the error of a type whose values are neither equal nor different.
pub(crate) fn no_equality(ty: Type) -> SqlError {
    let ty = ty.element().unwrap_or(ty).name();
    let message = format!("could not identify an equality operator for type {ty}");
    SqlError::new(state::UNDEFINED_FUNCTION, message)
}

/// Chooses one of some forms.
pub(crate) fn choose<'f, F: Form>(
    name: &str,
    forms: &[&'f F],
    args: &[Option<Type>],
) -> Result<Call<'f, F>, SqlError> {
    let forms = forms.iter().copied().filter(|form| form.takes(args.len()));
    let mut fitting: Vec<&'f F> =
        forms.filter(|form| (0..args.len()).all(|at| fits(*form, at, args[at]))).collect();
    if !assume_same(&mut fitting, name, args) {
        narrow(&mut fitting, args);
    }
    match *fitting.as_slice() {
        [] => Err(missing(name, args)),
        [one] if one.params().contains(&Param::Array) && !determines(one, args) => {
            let message = "could not determine polymorphic type because input has type unknown";
            Err(SqlError::new(state::TYPE_MISMATCH, message))
        }
        [one] => finish(one, args).ok_or_else(|| missing(name, args)),
        _ => Err(ambiguous(name, args)),
    }
}

/// Returns the error that several forms fit equally.
pub(crate) fn ambiguous(name: &str, args: &[Option<Type>]) -> SqlError {
    let shown = shown(name, args);
    let (kind, message) = match is_operator(name) {
        true => ("operator", format!("operator is not unique: {shown}")),
        false => ("function", format!("function {shown} is not unique")),
    };
    SqlError::new("42725", message).hint(format!(
        "Could not choose a best candidate {kind}. You might need to add explicit type casts."
    ))
}

fn fits<F: Form>(form: &F, at: usize, arg: Option<Type>) -> bool {
    let is_array = |ty: Type| ty.element().is_some();
    match (form.param(at), arg) {
        // A relation may be given by its name or its id.
        (Param::Of(Type::Object(Object::Class)), Some(from)) => {
            from.is_text()
                || from.is_integer()
                || matches!(from, Type::Oid | Type::Object(Object::Class))
        }
        (Param::Of(to), Some(from)) => from.base() == to || cast::is_implicit(from, to),
        (Param::Array, Some(ty)) => is_array(ty),
        (Param::NonArray, Some(ty)) => !is_array(ty),
        // Arrays of arrays are arrays of their elements.
        (Param::Common, Some(ty)) => !(is_array(ty) && form.params().contains(&Param::Array)),
        _ => true,
    }
}

/// Drops the forms that are worse than others.
fn narrow<F: Form>(fitting: &mut Vec<&F>, args: &[Option<Type>]) {
    let ty = |form: &F, at: usize| match form.param(at) {
        Param::Of(ty) => Some(ty),
        _ => None,
    };
    let is_exact =
        |form: &F, at: usize| args[at].is_some_and(|arg| ty(form, at) == Some(arg.base()));
    // The most arguments of exactly the parameter's type.
    keep_best(fitting, |form| (0..args.len()).filter(|at| is_exact(form, *at)).count());
    // Among conversions, the most to preferred types.
    keep_best(fitting, |form| {
        let preferred = |at: &usize| {
            args[*at].is_some() && (is_exact(form, *at) || ty(form, *at).is_some_and(is_preferred))
        };
        (0..args.len()).filter(preferred).count()
    });
    if fitting.len() < 2 {
        return;
    }
    // Undetermined arguments: text if some form takes text, else the category that all forms share.
    for at in (0..args.len()).filter(|at| args[*at].is_none()) {
        let types: Vec<Type> = fitting.iter().filter_map(|form| ty(form, at)).collect();
        let chosen = match types.iter().any(|ty| category(*ty) == Category::Text) {
            true => Some(Category::Text),
            false => types.first().map(|ty| category(*ty)),
        };
        let agree = types.iter().all(|ty| Some(category(*ty)) == chosen);
        if !agree && chosen != Some(Category::Text) {
            return last_resort(fitting, args);
        }
        fitting.retain(|form| ty(form, at).is_none_or(|ty| Some(category(ty)) == chosen));
        keep_best(fitting, |form| usize::from(ty(form, at).is_some_and(is_preferred)));
    }
    if fitting.len() > 1 {
        last_resort(fitting, args);
    }
}

/// If all known arguments have one type, undetermined ones are taken to have it, too.
fn last_resort<F: Form>(fitting: &mut Vec<&F>, args: &[Option<Type>]) {
    let mut known = args.iter().flatten().map(|ty| ty.base());
    let Some(first) = known.next().filter(|first| known.all(|ty| ty == *first)) else { return };
    let takes_it = |form: &&F| (0..args.len()).all(|at| fits(*form, at, Some(first)));
    if fitting.iter().filter(|form| takes_it(form)).count() == 1 {
        fitting.retain(takes_it);
    }
}

fn keep_best<F>(fitting: &mut Vec<&F>, worth: impl Fn(&F) -> usize) {
    if let Some(best) = fitting.iter().map(|form| worth(form)).max() {
        fitting.retain(|form| worth(form) == best);
    }
}

/// True if an argument determines the common type.
fn determines<F: Form>(form: &F, args: &[Option<Type>]) -> bool {
    let is_common = |at: usize| matches!(form.param(at), Param::Common | Param::Array);
    args.iter().enumerate().any(|(at, arg)| arg.is_some() && is_common(at))
}

/// Returns the types of the arguments and of the result.
fn finish<'f, F: Form>(function: &'f F, args: &[Option<Type>]) -> Option<Call<'f, F>> {
    let mut common: Option<Type> = None;
    for (at, arg) in args.iter().enumerate() {
        let of_common = match function.param(at) {
            Param::Common => *arg,
            Param::Array => arg.and_then(Type::element),
            _ => None,
        };
        if let Some(ty) = of_common {
            common = Some(match common {
                None => ty.base(),
                Some(met) if cast::is_implicit(ty, met) => met,
                Some(met) if cast::is_implicit(met, ty) => ty.base(),
                Some(_) => return None,
            });
        }
    }
    let common = common.unwrap_or(Type::Text);
    let params = args.iter().enumerate().map(|(at, arg)| match (function.param(at), arg) {
        (Param::Of(ty), _) => Some(ty),
        (Param::Common, _) => Some(common),
        (Param::Array, _) => Some(common.array()),
        (Param::Any | Param::NonArray, None) => Some(Type::Text),
        (Param::Any | Param::NonArray, Some(_)) => None,
    });
    let result = match function.result() {
        Out::Of(ty) => ty,
        Out::Common => common,
        Out::Array => common.array(),
    };
    Some(Call { function, params: params.collect(), result })
}

/// True for the name of an operator.
pub(crate) fn is_operator(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Takes an undetermined operand of an operator to have the type of the other one, if there is such
/// a form.
fn assume_same<F: Form>(fitting: &mut Vec<&F>, name: &str, args: &[Option<Type>]) -> bool {
    let known = match args {
        [Some(known), None] | [None, Some(known)] if is_operator(name) => known.base(),
        _ => return false,
    };
    let is_same = |form: &&F| {
        form.params().iter().all(|param| *param == Param::Of(known)) && !form.is_variadic()
    };
    let found = fitting.iter().any(is_same);
    if found {
        fitting.retain(is_same);
    }
    found
}

/// Returns a call as messages show it.
fn shown(name: &str, args: &[Option<Type>]) -> String {
    let types: Vec<_> = args.iter().map(|ty| ty.map_or("unknown", Type::name)).collect();
    match types.as_slice() {
        [left, right] if is_operator(name) => format!("{left} {name} {right}"),
        [only] if is_operator(name) => format!("{name} {only}"),
        _ => format!("{name}({})", types.join(", ")),
    }
}

/// Returns the error of a call that no form fits: 42883, or 0A000 for a function that is known and
/// not built.
pub(crate) fn missing(name: &str, args: &[Option<Type>]) -> SqlError {
    if json::is_not_built(name) {
        return SqlError::unsupported(format!("the function {name}"));
    }
    let shown = shown(name, args);
    let (message, hint) = match (is_operator(name), args.len()) {
        (false, _) => (
            format!("function {shown} does not exist"),
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        ),
        (true, 1) => (
            format!("operator does not exist: {shown}"),
            "No operator matches the given name and argument type. You might need to add an explicit type cast.",
        ),
        (true, _) => (
            format!("operator does not exist: {shown}"),
            "No operator matches the given name and argument types. You might need to add explicit type casts.",
        ),
    };
    SqlError::new(state::UNDEFINED_FUNCTION, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;

    /// Calls, and the parameters and results that PostgreSQL 15 chooses.
    #[test]
    fn forms_are_chosen_as_postgresql_chooses() {
        let (int, big, text) = (Some(Type::Int4), Some(Type::Int8), Some(Type::Text));
        let (ints, nums) = (int.map(Type::array), Some(Type::Numeric(None).array()));
        let (date, at, zoned) = (Some(Type::Date), Some(Type::Timestamp), Some(Type::TimestampTz));
        let span = Some(Type::Interval);
        let (num, float) = (Some(Type::Numeric(None)), Some(Type::Float8));
        for (name, args, params, result) in [
            ("abs", vec![int], vec![int], int),
            ("abs", vec![big], vec![big], big),
            ("abs", vec![None], vec![float], float),
            ("sqrt", vec![int], vec![float], float),
            ("round", vec![int], vec![float], float),
            ("round", vec![num], vec![num], num),
            ("round", vec![float], vec![float], float),
            ("round", vec![num, None], vec![num, int], num),
            ("length", vec![None], vec![text], int),
            ("mod", vec![int, big], vec![big, big], big),
            ("power", vec![int, int], vec![float, float], float),
            ("power", vec![num, int], vec![num, num], num),
            ("nullif", vec![int, None], vec![int, int], int),
            ("greatest", vec![int, num, None], vec![num, num, num], num),
            ("concat", vec![int, None], vec![None, text], text),
            ("||", vec![ints, ints], vec![ints, ints], ints),
            ("||", vec![ints, int], vec![ints, int], ints),
            ("||", vec![int, ints], vec![int, ints], ints),
            ("||", vec![ints, num], vec![nums, num], nums),
            ("||", vec![ints, None], vec![ints, ints], ints),
            ("||", vec![None, ints], vec![ints, ints], ints),
            ("||", vec![text, int], vec![text, None], text),
            ("array_append", vec![ints, None], vec![ints, int], ints),
            ("array_position", vec![nums, int], vec![nums, num], int),
            ("unnest", vec![ints], vec![ints], int),
            ("-", vec![date, date], vec![date, date], int),
            ("-", vec![date, None], vec![date, date], int),
            ("-", vec![date, at], vec![at, at], span),
            ("+", vec![date, span], vec![date, span], at),
            ("+", vec![None, span], vec![span, span], span),
            ("*", vec![int, span], vec![float, span], span),
            ("age", vec![date, date], vec![zoned, zoned], span),
            ("date_trunc", vec![None, date], vec![text, zoned], zoned),
            ("timezone", vec![None, date], vec![text, zoned], at),
        ] {
            let call = resolve(name, named(name), &args)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert_eq!((&call.params, Some(call.result)), (&params, result), "{name} {args:?}");
        }
        for (name, args, sqlstate) in [
            ("abs", vec![text], "42883"),
            ("nothing", vec![], "42883"),
            ("lower", vec![int], "42883"),
            ("mod", vec![float, float], "42883"),
            ("substr", vec![text], "42883"),
            ("||", vec![ints, text], "42883"),
            ("+", vec![date, None], "42725"),
            ("+", vec![date, big], "42883"),
            ("+", vec![at, date], "42883"),
            ("date_trunc", vec![None, None], "42725"),
            ("array_length", vec![None, int], "42804"),
        ] {
            let error = resolve(name, named(name), &args).expect_err(name);
            assert_eq!(error.sqlstate, sqlstate, "{name}");
        }
    }
}
