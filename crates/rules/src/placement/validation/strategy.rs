//! What may be wrong with a rollout strategy.

use flagship_api::apply_strategy::ApplyStrategyType;
use flagship_api::int_or_string::{Amount, AmountError};
use flagship_api::placement::{RolloutStrategy, RolloutStrategyType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Mistakes;

pub fn check(strategy: &RolloutStrategy, mistakes: &mut Mistakes) {
    if let Some(rolling) = &strategy.rolling_update {
        if strategy.r#type == Some(RolloutStrategyType::External) {
            // Misspelt since the first release.
            mistakes.add(
                "rollingUpdateConifg is not valid for ExternalRollout strategy type".to_owned(),
            );
        }
        if let Some(n) = rolling.unavailable_period_seconds.filter(|n| *n < 0) {
            mistakes.add(format!(
                "unavailablePeriodSeconds must be greater than or equal to 0, got {n}"
            ));
        }
        check_amount("maxUnavailable", rolling.max_unavailable.as_ref(), mistakes);
        check_amount("maxSurge", rolling.max_surge.as_ref(), mistakes);
    }
    if let Some(apply) = &strategy.apply_strategy {
        let server_side = apply.r#type == Some(ApplyStrategyType::ServerSideApply);
        if !server_side && apply.server_side_apply_config.is_some() {
            mistakes.add(
                "serverSideApplyConfig is only valid for ServerSideApply strategy type".to_owned(),
            );
        }
    }
}

fn check_amount(field: &str, amount: Option<&IntOrString>, mistakes: &mut Mistakes) {
    let Some(value) = amount else { return };
    let printed = match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    };
    match Amount::try_from(value) {
        // More than everything is everything.
        Err(AmountError::OutOfRange(percent)) if percent > 100 => {}
        Err(AmountError::Negative(_) | AmountError::OutOfRange(_)) => {
            mistakes.add(format!("{field} must be greater than or equal to 0, got `{printed}`"));
        }
        Err(error) => mistakes.add(format!("{field} `{printed}` is invalid: {error}")),
        Ok(_) => {}
    }
}
