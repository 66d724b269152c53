//! Members: taints that make sense, and no departure while others use what they export.

use std::collections::BTreeSet;

use flagship_api::cluster::{DeleteValidationMode, MemberCluster};
use flagship_api::printed::{self, Printed};
use flagship_base::names;

use super::{Answer, Context, Operation, Options, Request, read};

/// Judges a write to a member.
pub fn member(
    request: &Request<'_>,
    context: &dyn Context,
    options: Options,
) -> Result<Answer, Answer> {
    let object: MemberCluster = read(request.object)?;
    if request.operation == Operation::Delete {
        return Ok(leave(request.name, &object, context, options));
    }
    Ok(match mistakes(&object) {
        mistakes if mistakes.is_empty() => Answer::Allowed(String::new()),
        mistakes => Answer::Denied(printed::errors(mistakes)),
    })
}

fn mistakes(object: &MemberCluster) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut seen = BTreeSet::new();
    for taint in &object.spec.taints {
        let printed = Printed(taint).to_string();
        for problem in names::qualified_name(&taint.key) {
            mistakes.push(format!("invalid taint key {printed}: {problem}"));
        }
        for problem in names::label_value(&taint.value) {
            mistakes.push(format!("invalid taint value {printed}: {problem}"));
        }
        // The printed form tells all there is to tell about one.
        if !seen.insert(printed.clone()) {
            mistakes.push(format!("taint {printed} already exists, taints must be unique"));
        }
    }
    mistakes
}

fn leave(name: &str, object: &MemberCluster, context: &dyn Context, options: Options) -> Answer {
    let asked = object.spec.delete_options.as_ref().and_then(|asked| asked.validation_mode);
    if asked == Some(DeleteValidationMode::Skip) {
        return Answer::Allowed(
            "Skipping validation for member cluster DELETE when the validation mode is set to skip"
                .to_owned(),
        );
    }
    if !options.networking_agents {
        return Answer::Allowed(
            "Networking agents disabled; skipping ServiceExport validation".to_owned(),
        );
    }
    match context.exports(name) {
        Err(error) => Answer::Failed(format!(
            "failed to list internalServiceExportList, please retry the request: {error}"
        )),
        Ok(exports) => match exports.first() {
            None => Answer::Allowed(String::new()),
            Some(export) => Answer::Denied(format!(
                "Please delete serviceExport {export} in the member cluster before leaving, request is denied"
            )),
        },
    }
}
