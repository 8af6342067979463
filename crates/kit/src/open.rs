//! Values that the other side may extend at any time: known ones have names, all others pass through as they are.

/// An enum over texts of the other side; a value that is not listed is kept in `Other`.
#[macro_export]
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    open! {
        /// A light.
        Light {
            /// Go.
            Green = "green",
            /// Stop.
            Red = "red",
        }
    }

    proptest! {
        #[test]
        fn every_value_passes_through_unchanged(text in any::<String>()) {
            let light = Light::from(text.as_str());
            prop_assert_eq!(light.as_str(), text.as_str());
            prop_assert_eq!(light.to_string(), text);
        }
    }

    #[test]
    fn a_known_text_is_a_known_value() {
        assert_eq!(Light::from("red"), Light::Red);
        assert_eq!(Light::from("Red"), Light::Other("Red".into()));
    }
}
