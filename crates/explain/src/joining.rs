//! What an agent that was just installed still waits for, down to its pods.

use serde_json::Value;

/// What a Deployment's pods still lack; nothing once all are ready.
pub fn of_pods(deployment: Option<&Value>, pods: &[Value]) -> Option<String> {
    let Some(deployment) = deployment else {
        return Some("its Deployment is not there".to_owned());
    };
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let ready = deployment["status"]["readyReplicas"].as_i64().unwrap_or(0);
    let current =
        deployment["metadata"]["generation"] == deployment["status"]["observedGeneration"];
    if ready >= wanted && current {
        return None;
    }
    let trouble = pods.iter().find_map(|pod| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let mut containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        containers.find_map(of_container).map(|why| format!("pod {name} {why}"))
    });
    let unplaced = || {
        pods.iter().find_map(|pod| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let conditions = pod["status"]["conditions"].as_array()?;
            let found = conditions
                .iter()
                .find(|c| c["type"] == "PodScheduled" && c["status"] == "False")?;
            let message = found["message"].as_str().unwrap_or_default();
            Some(format!("pod {name} has no node: {message}"))
        })
    };
    Some(trouble.or_else(unplaced).unwrap_or_else(|| match pods.len() {
        0 => "waiting for a pod".to_owned(),
        _ => format!("{ready} of {wanted} pods are ready"),
    }))
}

fn of_container(status: &Value) -> Option<String> {
    let name = status["name"].as_str().unwrap_or_default();
    let waiting = &status["state"]["waiting"];
    let reason = waiting["reason"].as_str()?;
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    let ended = &status["lastState"]["terminated"]["message"];
    let message = ended.as_str().or_else(|| waiting["message"].as_str()).unwrap_or_default();
    Some(format!("cannot run {name}: {reason} {}", message.trim()).trim_end().to_owned())
}

/// What a member that is to join still lacks; nothing once it has joined.
pub fn of_member(member: Option<&Value>, pods: Option<String>, url: &str) -> Option<String> {
    let conditions = member.and_then(|member| member["status"]["conditions"].as_array());
    let joined = conditions.into_iter().flatten().find(|c| c["type"] == "Joined");
    if joined.is_some_and(|joined| joined["status"] == "True") {
        return None;
    }
    if let Some(pods) = pods {
        return Some(pods);
    }
    let agents = member.and_then(|member| member["status"]["agentStatus"].as_array());
    if agents.is_none_or(Vec::is_empty) {
        return Some(format!(
            "the agent runs and has not reported to the hub; its log says whether it reaches {url}"
        ));
    }
    let message = joined.and_then(|joined| joined["message"].as_str()).unwrap_or_default();
    Some(
        format!("the agent reports, and the hub has not let it join yet {message}")
            .trim_end()
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_thing_that_is_missing_is_said() {
        let deployment = |ready: i64| {
            json!({"metadata": {"generation": 1}, "spec": {"replicas": 1},
                "status": {"observedGeneration": 1, "readyReplicas": ready}})
        };
        let pod = |status: Value| json!({"metadata": {"name": "agent-1"}, "status": status});
        let waiting = |reason: &str, message: &str| {
            pod(json!({"containerStatuses": [{"name": "agent",
                "state": {"waiting": {"reason": reason, "message": message}}}]}))
        };
        let unplaced = json!({"conditions": [{"type": "PodScheduled", "status": "False",
            "message": "0/3 nodes are available"}]});
        for (deployment, pods, expected) in [
            (None, vec![], Some("its Deployment is not there")),
            (Some(deployment(1)), vec![], None),
            (Some(deployment(0)), vec![], Some("waiting for a pod")),
            (Some(deployment(0)), vec![pod(json!({}))], Some("0 of 1 pods are ready")),
            (
                Some(deployment(0)),
                vec![waiting("ContainerCreating", "")],
                Some("0 of 1 pods are ready"),
            ),
            (
                Some(deployment(0)),
                vec![waiting("ImagePullBackOff", "no such image")],
                Some("pod agent-1 cannot run agent: ImagePullBackOff no such image"),
            ),
            (
                Some(deployment(0)),
                vec![pod(unplaced)],
                Some("pod agent-1 has no node: 0/3 nodes are available"),
            ),
        ] {
            assert_eq!(of_pods(deployment.as_ref(), &pods).as_deref(), expected);
        }
    }

    #[test]
    fn a_member_joins_when_its_agent_has_said_so() {
        let member = |status: Value| json!({"status": status});
        let url = "https://hub";
        let condition =
            |status: &str| json!([{"type": "Joined", "status": status, "message": "x"}]);
        let joined = member(json!({"conditions": condition("True")}));
        assert_eq!(of_member(Some(&joined), Some("0 of 1".into()), url), None);
        let silent = member(json!({}));
        assert_eq!(of_member(Some(&silent), Some("no pod".into()), url).unwrap(), "no pod");
        let said = of_member(Some(&silent), None, url).unwrap();
        assert!(said.ends_with("whether it reaches https://hub"), "{said}");
        let status =
            json!({"conditions": condition("Unknown"), "agentStatus": [{"type": "MemberAgent"}]});
        let said = of_member(Some(&member(status)), None, url).unwrap();
        assert_eq!(said, "the agent reports, and the hub has not let it join yet x");
    }
}
