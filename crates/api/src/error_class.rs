//! The four classes of trouble that messages name.
//!
//! A message reads `{class}: {cause}`, and clients match on the class: a metric
//! counts user errors by it, and the reference suite looks for it. What a class
//! means for retrying is decided where errors are handled.

/// Who can do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// The user must change something.
    User,
    /// Somebody must look: this should not be possible.
    Unexpected,
    /// Nobody: it goes away by itself.
    Expected,
    /// The API server, or whoever runs it.
    ApiServer,
}

impl ErrorClass {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::User, Self::Unexpected, Self::Expected, Self::ApiServer];

    /// The words a message starts with.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "failed to process the request due to a client error",
            Self::Unexpected => "unexpected behavior which cannot be handled by the controller",
            Self::Expected => "expected behavior which can be recovered by itself",
            Self::ApiServer => "error returned by the API server",
        }
    }

    /// The message of this class: `{class}: {cause}`.
    pub fn message(self, cause: impl std::fmt::Display) -> String {
        format!("{}: {cause}", self.as_str())
    }

    /// The class a message starts with, and the cause behind it.
    pub fn split(message: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|class| {
            let cause = message.strip_prefix(class.as_str())?.strip_prefix(": ")?;
            Some((class, cause))
        })
    }

    /// The message without the class in front; any other text is left alone.
    pub fn cause(message: &str) -> &str {
        Self::split(message).map_or(message, |(_, cause)| cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_class_and_cause() {
        let message = ErrorClass::User.message("parent placement not found");
        assert_eq!(
            message,
            "failed to process the request due to a client error: parent placement not found"
        );
        assert_eq!(
            ErrorClass::split(&message),
            Some((ErrorClass::User, "parent placement not found"))
        );
    }

    #[test]
    fn only_a_known_class_is_taken_off() {
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::cause(&class.message("a: b")), "a: b");
        }
        for other in
            ["a: b", "failed to apply overrides to x: y", "", "error returned by the API server"]
        {
            assert_eq!(ErrorClass::cause(other), other);
        }
    }
}
