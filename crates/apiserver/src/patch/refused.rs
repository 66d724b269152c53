//! What a refused patch is answered with.

use flagship_patch::PatchError;

use crate::machinery::status::{ApiError, Cause};

impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::Malformed(says) => ApiError::bad_request(says),
            PatchError::Unmergeable(says) => ApiError::new(422, "Invalid", says),
            PatchError::TooLarge(says) => ApiError::new(413, "RequestEntityTooLarge", says),
            // Kubernetes keeps to the general sentence here; kubectl prints the cause.
            PatchError::Misfit(says) => {
                let general = "the server rejected our request due to an error in our request";
                let mut error = ApiError::new(422, "Invalid", general);
                let cause = Cause {
                    reason: "UnexpectedServerResponse",
                    message: says,
                    field: String::new(),
                };
                error.details.get_or_insert_default().causes.push(cause);
                error
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misfit_answers_422_and_says_why_in_a_cause() {
        let error = ApiError::from(PatchError::Misfit("testing value /a failed".into()));
        assert_eq!((error.code, error.reason), (422, "Invalid"));
        assert_eq!(error.details.unwrap().causes[0].message, "testing value /a failed");
        let error = ApiError::from(PatchError::Unmergeable("lists of lists".into()));
        assert_eq!((error.code, error.message.as_str()), (422, "lists of lists"));
        assert_eq!(ApiError::from(PatchError::Malformed("no".into())).code, 400);
        assert_eq!(ApiError::from(PatchError::TooLarge("no".into())).code, 413);
    }
}
