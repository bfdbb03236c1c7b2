//! Functions of sequences. The executor calls those that read or change one.

use super::of::*;
use super::{Effect, Function, Kernel, Out, Param};

const fn effect(
    name: &'static str,
    params: &'static [Param],
    result: Out,
    effect: Effect,
) -> Function {
    let function = Function::new(name, params, result, super::no_value).volatile();
    Function { kernel: Kernel::Effect(effect), ..function }
}

pub(super) const FUNCTIONS: &[Function] = &[
    effect("nextval", &[REGCLASS], AN_INT8, Effect::Next),
    effect("currval", &[REGCLASS], AN_INT8, Effect::Current),
    effect("lastval", &[], AN_INT8, Effect::Last),
    effect("setval", &[REGCLASS, INT8], AN_INT8, Effect::Set),
    effect("setval", &[REGCLASS, INT8, BOOL], AN_INT8, Effect::Set),
];
