//! What the statuses of our own kinds have in common.

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// A status that carries conditions and the generation they speak of.
pub trait Conditioned {
    /// The conditions as last written.
    fn conditions(&self) -> &[Condition];
    /// The conditions, to be folded into.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
    /// Records which generation of the object the status was computed from.
    fn set_observed_generation(&mut self, generation: i64);
}

/// The condition of the given type, if it was ever set.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// Puts conditions in the order of their types, in which they are kept.
pub fn sort(conditions: &mut [Condition]) {
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

/// Makes structs with the fields `conditions` and `observed_generation` [`Conditioned`].
#[macro_export]
macro_rules! conditioned {
    ($($ty:ty),+ $(,)?) => {$(
        impl $crate::status::Conditioned for $ty {
            fn conditions(&self) -> &[$crate::status::Condition] {
                &self.conditions
            }
            fn conditions_mut(&mut self) -> &mut Vec<$crate::status::Condition> {
                &mut self.conditions
            }
            fn set_observed_generation(&mut self, generation: i64) {
                self.observed_generation = Some(generation);
            }
        }
    )+};
}
