//! What a refused patch is answered with.

use flagship_base::machinery::status::ApiError;
use flagship_patch::PatchError;

/// The answer to whoever sent the patch.
pub fn refused(error: PatchError) -> ApiError {
    match error {
        PatchError::Malformed(says) => ApiError::bad_request(says),
        PatchError::Unmergeable(says) => ApiError::new(422, "Invalid", says),
        PatchError::Unknown(says) => ApiError::new(500, "", says),
        PatchError::TooLarge(says) => ApiError::new(413, "RequestEntityTooLarge", says),
        // Kubernetes says no more than the general sentence; kubectl prints it all.
        PatchError::Misfit(says) => {
            let general = "the server rejected our request due to an error in our request";
            let mut error = ApiError::new(422, "Invalid", format!("{general}: {says}"));
            error.details = Some(Box::default());
            error
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misfit_answers_422_and_says_why() {
        let error = refused(PatchError::Misfit("testing value /a failed".into()));
        assert_eq!((error.code, error.reason), (422, "Invalid"));
        assert!(error.message.ends_with("an error in our request: testing value /a failed"));
        assert!(error.details.unwrap().causes.is_empty());
        let error = refused(PatchError::Unmergeable("lists of lists".into()));
        assert_eq!((error.code, error.message.as_str()), (422, "lists of lists"));
        assert_eq!(refused(PatchError::Malformed("no".into())).code, 400);
        assert_eq!(refused(PatchError::TooLarge("no".into())).code, 413);
    }
}
