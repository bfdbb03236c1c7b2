//! Functions of sequences. The executor calls those that read or change one.

use super::of::*;
use super::{Effect, Function, Out, Param};
use crate::sequence::Use;

const fn uses(name: &'static str, params: &'static [Param], result: Out, how: Use) -> Function {
    Function::effect_of(name, params, result, Effect::Sequence(how))
}

pub(super) const FUNCTIONS: &[Function] = &[
    uses("nextval", &[REGCLASS], AN_INT8, Use::Next),
    uses("currval", &[REGCLASS], AN_INT8, Use::Current),
    uses("lastval", &[], AN_INT8, Use::Last),
    uses("setval", &[REGCLASS, INT8], AN_INT8, Use::Set),
    uses("setval", &[REGCLASS, INT8, BOOL], AN_INT8, Use::Set),
];
