//! What a template says about its nodes by itself.

use api::views::TemplateStatus;

use crate::quantity::Quantity;

/// Whether cluster-autoscaler can plan with what a template says, without any annotation.
#[must_use]
pub fn says_everything(status: &TemplateStatus) -> bool {
    let some = |key: &str| {
        let amount = status.capacity.get(key).and_then(|text| Quantity::parse(text));
        amount.is_some_and(|amount| !amount.is_zero() && !amount.is_negative())
    };
    some("cpu") && some("memory") && status.architecture.is_some() && status.operating_system.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_a_part_is_not_enough() {
        let whole = TemplateStatus {
            capacity: [("cpu".to_owned(), "4".to_owned()), ("memory".to_owned(), "16Gi".to_owned())].into(),
            architecture: Some("amd64".to_owned()),
            operating_system: Some("linux".to_owned()),
        };
        assert!(says_everything(&whole));
        assert!(!says_everything(&TemplateStatus { operating_system: None, ..whole.clone() }));
        let zero = [("cpu".to_owned(), "0".to_owned()), ("memory".to_owned(), "16Gi".to_owned())].into();
        assert!(!says_everything(&TemplateStatus { capacity: zero, ..whole }));
    }
}
