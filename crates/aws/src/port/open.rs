//! Values that EC2 may extend at any time: known ones have names, all others pass through as they are.

/// An enum over texts of the other side; a value that is not listed is kept in `Other`.
macro_rules! open {
    ($(#[$doc:meta])* $ty:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $ty {
            $($(#[$vdoc])* $variant,)+
            /// A value this version does not know, as it was sent.
            Other(Box<str>),
        }

        impl $ty {
            /// The text on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $ty {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $ty {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use open;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::port::{HostState, InstanceState};

    proptest! {
        #[test]
        fn every_value_passes_through_unchanged(text in any::<String>()) {
            let state = HostState::from(text.as_str());
            prop_assert_eq!(state.as_str(), text.as_str());
            prop_assert_eq!(InstanceState::from(text.as_str()).to_string(), text);
        }
    }

    #[test]
    fn a_known_text_is_a_known_value() {
        assert_eq!(HostState::from("permanent-failure"), HostState::PermanentFailure);
        assert_eq!(HostState::from("Available"), HostState::Other("Available".into()));
    }
}
