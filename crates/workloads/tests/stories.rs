//! Whole clusters under paused time, on the real in-process server.

mod cluster;

use cluster::{TestCluster, deployment};
use expect_test::expect;
use flagship_apiserver::rest::Propagation;
use flagship_workloads::WorkloadConfig;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn a_new_cluster_has_nodes_accounts_and_certificates() {
    let test =
        TestCluster::new(1, WorkloadConfig { root_ca: "CERT".into(), ..WorkloadConfig::default() });
    test.pass(5).await;
    assert_eq!(test.names("nodes", ""), ["node-1", "node-2"]);
    let node = test.get("nodes", "", "node-1");
    assert_eq!(node["status"]["capacity"]["cpu"], "8");
    assert_eq!(test.names("serviceaccounts", "default"), ["default"]);
    let map = test.get("configmaps", "kube-system", "kube-root-ca.crt");
    assert_eq!(map["data"]["ca.crt"], "CERT");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create("deployments.apps", deployment("web", 3, "nginx:1.28")).await;
    test.pass(10).await;
    let web = test.get("deployments.apps", "default", "web");
    assert_eq!(web["status"]["availableReplicas"], 3, "{web:#}");
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(web["metadata"]["generation"], 1, "nobody but its user changes it");
    let pods = test.list("pods", "default");
    let mut ips: Vec<&str> = pods.iter().filter_map(|p| p["status"]["podIP"].as_str()).collect();
    ips.sort_unstable();
    ips.dedup();
    assert_eq!(ips.len(), 3, "every pod has an address of its own");
    let mut nodes: Vec<&str> = pods.iter().filter_map(|p| p["spec"]["nodeName"].as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes, ["node-1", "node-2"]);
    assert_eq!(
        test.conditions("deployments.apps", "web"),
        [
            "Available=True MinimumReplicasAvailable: Deployment has minimum availability.",
            "Progressing=True NewReplicaSetAvailable: ReplicaSet \"web-#\" has successfully progressed.",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_stops_at_the_budget_and_is_told_as_users_know_it() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create("deployments.apps", deployment("web", 4, "nginx:1.27")).await;
    test.pass(30).await;
    test.edit("deployments.apps", "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1.28:latest");
    })
    .await;
    test.pass(300).await;
    let status = &test.get("deployments.apps", "default", "web")["status"];
    // One may be missing and one may be too many: three serve and two are stuck.
    assert_eq!(status["availableReplicas"], 3, "{status:#}");
    assert_eq!(status["updatedReplicas"], 2);
    assert_eq!(status["replicas"], 5);
    let stuck: Vec<Value> = test
        .list("pods", "default")
        .into_iter()
        .filter(|p| p["status"]["phase"] == "Pending")
        .collect();
    assert_eq!(stuck.len(), 2);
    let waiting = &stuck[0]["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "InvalidImageName");
    assert_eq!(
        waiting["message"],
        "Failed to apply default image tag \"nginx:1.28:latest\": couldn't parse image name \"nginx:1.28:latest\": invalid reference format"
    );
    test.pass(600).await;
    assert_eq!(
        test.conditions("deployments.apps", "web"),
        [
            "Available=True MinimumReplicasAvailable: Deployment has minimum availability.",
            "Progressing=False ProgressDeadlineExceeded: ReplicaSet \"web-#\" has timed out progressing.",
        ]
    );
    // Back to what worked: the old set is found again and everything recovers.
    test.edit("deployments.apps", "web", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1.27");
    })
    .await;
    test.pass(30).await;
    assert_eq!(
        test.conditions("deployments.apps", "web")[1],
        "Progressing=True NewReplicaSetAvailable: ReplicaSet \"web-#\" has successfully progressed."
    );
    assert_eq!(test.list("pods", "default").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn events_tell_the_story_of_one_pod() {
    let test = TestCluster::new(1, WorkloadConfig { nodes: 1, ..WorkloadConfig::default() });
    test.create("deployments.apps", deployment("web", 1, "nginx:1.28:latest")).await;
    test.pass(60).await;
    let pod = test.neat(&test.names("pods", "default").remove(0));
    let told = test.events("default").join("\n").replace(&pod, "web-#-x");
    expect![[r#"
        Normal ScalingReplicaSet Deployment: Scaled up replica set web-# from 0 to 1 (x1)
        Normal Scheduled Pod: Successfully assigned default/web-#-x to node-1 (x1)
        Normal SuccessfulCreate ReplicaSet: Created pod: web-#-x (x1)
        Warning Failed Pod: Error: InvalidImageName (x1)
        Warning InspectFailed Pod: Failed to apply default image tag "nginx:1.28:latest": couldn't parse image name "nginx:1.28:latest": invalid reference format (x1)"#]]
    .assert_eq(&told);
}

#[tokio::test(start_paused = true)]
async fn a_missing_image_backs_off_and_its_events_are_counted() {
    let config = WorkloadConfig {
        missing_images: vec!["ghcr.io/none/*".into()],
        ..WorkloadConfig::default()
    };
    let test = TestCluster::new(1, config);
    test.create("deployments.apps", deployment("web", 1, "ghcr.io/none/app:1")).await;
    test.pass(1_000).await;
    let pod = test.list("pods", "default").remove(0);
    let reason =
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].as_str().unwrap();
    assert!(["ErrImagePull", "ImagePullBackOff"].contains(&reason), "{reason}");
    let pulls: Vec<String> =
        test.events("default").into_iter().filter(|e| e.contains("Error: ErrImagePull")).collect();
    assert_eq!(pulls, ["Warning Failed Pod: Error: ErrImagePull (x7)"]);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_dependents() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create("deployments.apps", deployment("web", 2, "nginx")).await;
    test.pass(10).await;
    for pod in test.names("pods", "default") {
        // Pods that take ten seconds to stop.
        test.edit("pods", &pod, |p| {
            p["metadata"]["annotations"] = json!({"workloads.flagship.dev/stop-after": "10s"});
        })
        .await;
    }
    test.delete("deployments.apps", "default", "web", Propagation::Foreground).await;
    test.pass(5).await;
    assert!(test.find("deployments.apps", "default", "web").is_some(), "held by its pods");
    assert_eq!(test.names("pods", "default").len(), 2);
    test.pass(10).await;
    assert!(test.find("deployments.apps", "default", "web").is_none());
    assert!(test.names("replicasets.apps", "default").is_empty());
    assert!(test.names("pods", "default").is_empty());
}

#[tokio::test(start_paused = true)]
async fn background_deletion_clears_up_and_orphaning_does_not() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    for name in ["gone", "kept"] {
        test.create("deployments.apps", deployment(name, 1, "nginx")).await;
    }
    test.pass(10).await;
    test.delete("deployments.apps", "default", "gone", Propagation::Background).await;
    test.delete("deployments.apps", "default", "kept", Propagation::Orphan).await;
    test.pass(60).await;
    assert!(test.names("deployments.apps", "default").is_empty());
    let sets = test.names("replicasets.apps", "default");
    assert!(sets.len() == 1 && sets[0].starts_with("kept-"), "{sets:?}");
    assert_eq!(test.names("pods", "default").len(), 1);
    // The same deployment again takes its orphans over.
    test.create("deployments.apps", deployment("kept", 1, "nginx")).await;
    test.pass(10).await;
    assert_eq!(test.names("replicasets.apps", "default"), sets);
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_keeps_its_pods_and_leaves_them_behind() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "nginx:1"}]}});
    let controller = json!({"apiVersion": "v1", "kind": "ReplicationController",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": labels, "template": template}});
    test.create("replicationcontrollers", controller).await;
    test.pass(10).await;
    let status = test.get("replicationcontrollers", "default", "web")["status"].clone();
    let counts = ["replicas", "readyReplicas", "observedGeneration"].map(|field| &status[field]);
    assert_eq!(counts, [&json!(2), &json!(2), &json!(1)], "{status}");
    let pods = test.names("pods", "default");
    assert!(pods.len() == 2 && pods.iter().all(|name| name.starts_with("web-")), "{pods:?}");
    // One that is deleted is made anew, one that loses its label is let go and replaced.
    test.delete("pods", "default", &pods[0], Propagation::Background).await;
    test.edit("pods", &pods[1], |pod| pod["metadata"]["labels"] = json!({"app": "mine"})).await;
    test.pass(30).await;
    let owned = |pod: &Value| pod["metadata"]["ownerReferences"][0]["kind"].clone();
    let owned: Vec<Value> = test.list("pods", "default").iter().map(owned).collect();
    let count = |kind: Value| owned.iter().filter(|owner| **owner == kind).count();
    assert_eq!((count(json!("ReplicationController")), count(json!(null))), (2, 1));
    test.edit("replicationcontrollers", "web", |one| one["spec"]["replicas"] = json!(1)).await;
    test.pass(30).await;
    assert_eq!(test.names("pods", "default").len(), 2);
    test.user.delete("replicationcontrollers", "default", "web", Default::default()).await.unwrap();
    test.pass(30).await;
    assert!(test.names("replicationcontrollers", "default").is_empty());
    assert_eq!(
        test.names("pods", "default").len(),
        2,
        "they are orphans, as Kubernetes leaves them"
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_drains_with_everything_in_it() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create(
        "namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
    )
    .await;
    test.create("customresourcedefinitions.apiextensions.k8s.io", widgets()).await;
    test.pass(2).await;
    let mut web = deployment("web", 2, "nginx");
    web["metadata"]["namespace"] = json!("team");
    test.create("deployments.apps", web).await;
    test.create(
        "widgets.example.com",
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "namespace": "team", "finalizers": ["example.com/hold"]}}),
    )
    .await;
    test.pass(10).await;
    assert_eq!(test.names("pods", "team").len(), 2);
    test.delete("namespaces", "", "team", Propagation::Background).await;
    test.pass(30).await;
    let namespace = test.get("namespaces", "", "team");
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let said: Vec<String> = namespace["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            format!(
                "{}={}: {}",
                c["type"].as_str().unwrap(),
                c["status"].as_str().unwrap(),
                c["message"].as_str().unwrap()
            )
        })
        .collect();
    expect![[r#"
        NamespaceDeletionDiscoveryFailure=False: All resources successfully discovered
        NamespaceDeletionGroupVersionParsingFailure=False: All legacy kube types successfully parsed
        NamespaceDeletionContentFailure=False: All content successfully deleted, may be waiting on finalization
        NamespaceContentRemaining=True: Some resources are remaining: widgets.example.com has 1 resource instances
        NamespaceFinalizersRemaining=True: Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"#]]
    .assert_eq(&said.join("\n"));
    let mut widget = test.get("widgets.example.com", "team", "w");
    widget["metadata"]["finalizers"] = json!([]);
    test.user.update("widgets.example.com", widget).await.unwrap();
    test.pass(5).await;
    assert!(test.find("namespaces", "", "team").is_none());
    assert!(test.names("events", "team").is_empty());
}

fn widgets() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[tokio::test(start_paused = true)]
async fn custom_resources_own_and_are_collected() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create("customresourcedefinitions.apiextensions.k8s.io", widgets()).await;
    test.pass(1).await;
    let widget = |name: &str, owners: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners}})
    };
    let first = test.create("widgets.example.com", widget("a", json!([]))).await;
    let owner = json!([{"apiVersion": "example.com/v1", "kind": "Widget", "name": "a", "uid": first["metadata"]["uid"]}]);
    test.create("widgets.example.com", widget("b", owner.clone())).await;
    test.create(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", "ownerReferences": owner}}),
    )
    .await;
    test.pass(60).await;
    assert_eq!(test.names("widgets.example.com", "default"), ["a", "b"]);
    test.delete("widgets.example.com", "default", "a", Propagation::Background).await;
    test.pass(5).await;
    assert!(test.names("widgets.example.com", "default").is_empty());
    assert!(!test.names("configmaps", "default").contains(&"c".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_and_leaves_its_pods_free() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create("jobs.batch", json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "sum", "namespace": "default"},
        "spec": {"completions": 3, "parallelism": 2, "ttlSecondsAfterFinished": 600,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}})).await;
    test.pass(60).await;
    let job = test.get("jobs.batch", "default", "sum");
    assert_eq!(job["status"]["succeeded"], 3, "{job:#}");
    assert_eq!(
        test.conditions("jobs.batch", "sum"),
        [
            "SuccessCriteriaMet=True CompletionsReached: Reached expected number of succeeded pods",
            "Complete=True CompletionsReached: Reached expected number of succeeded pods",
        ]
    );
    assert!(test.list("pods", "default").iter().all(|p| p["metadata"].get("finalizers").is_none()));
    test.pass(700).await;
    assert!(test.find("jobs.batch", "default", "sum").is_none());
    assert!(test.names("pods", "default").is_empty(), "{:?}", test.list("pods", "default"));
}

#[tokio::test(start_paused = true)]
async fn a_running_job_that_is_deleted_takes_its_pods_along() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create("jobs.batch", json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "long", "namespace": "default"},
        "spec": {"parallelism": 2, "template": {
            "metadata": {"annotations": {"workloads.flagship.dev/run-for": "5h"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}})).await;
    test.pass(30).await;
    assert_eq!(test.names("pods", "default").len(), 2);
    test.delete("jobs.batch", "default", "long", Propagation::Background).await;
    test.pass(60).await;
    assert!(test.names("pods", "default").is_empty(), "{:?}", test.list("pods", "default"));
}

#[tokio::test(start_paused = true)]
async fn stateful_and_daemon_sets_come_up_with_claims_and_endpoints() {
    let test = TestCluster::new(1, WorkloadConfig { nodes: 3, ..WorkloadConfig::default() });
    test.create(
        "services",
        json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"app": "db"}, "ports": [{"port": 5432}]}}),
    )
    .await;
    test.create("statefulsets.apps", json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "volumeClaimTemplates": [{"metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
            "template": {"metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "db", "image": "postgres:17"}]}}}})).await;
    test.create(
        "daemonsets.apps",
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "a", "image": "agent:1"}]}}}}),
    )
    .await;
    test.pass(60).await;
    let set = test.get("statefulsets.apps", "default", "db");
    assert_eq!(set["status"]["readyReplicas"], 3, "{set:#}");
    let daemon = test.get("daemonsets.apps", "default", "agent");
    assert_eq!(daemon["status"]["numberAvailable"], 3, "{daemon:#}");
    let claims = test.list("persistentvolumeclaims", "default");
    assert!(
        claims.len() == 3 && claims.iter().all(|c| c["status"]["phase"] == "Bound"),
        "{claims:#?}"
    );
    assert!(test.list("persistentvolumes", "").iter().all(|v| v["status"]["phase"] == "Bound"));
    let endpoints = test.get("endpoints", "default", "db");
    assert_eq!(endpoints["subsets"][0]["addresses"].as_array().unwrap().len(), 3);
    let slices = test.list("endpointslices.discovery.k8s.io", "default");
    assert_eq!(slices[0]["endpoints"].as_array().unwrap().len(), 3);
    test.delete("services", "default", "db", Propagation::Background).await;
    test.pass(5).await;
    assert!(test.names("endpoints", "default").is_empty());
    assert!(test.names("endpointslices.discovery.k8s.io", "default").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_waits_and_is_placed_when_room_appears() {
    let test =
        TestCluster::new(1, WorkloadConfig { nodes: 2, node_cpu: 2, ..WorkloadConfig::default() });
    let hungry = |name: &str| {
        let mut web = deployment(name, 2, "nginx");
        web["spec"]["template"]["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1500m"}});
        web
    };
    test.create("deployments.apps", hungry("first")).await;
    test.pass(10).await;
    test.create("deployments.apps", hungry("second")).await;
    test.pass(10).await;
    let warned: Vec<String> =
        test.events("default").into_iter().filter(|e| e.contains("FailedScheduling")).collect();
    assert_eq!(warned.len(), 2);
    assert_eq!(
        warned[0],
        "Warning FailedScheduling Pod: 0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod. (x1)"
    );
    test.delete("deployments.apps", "default", "first", Propagation::Background).await;
    test.pass(10).await;
    let second = test.get("deployments.apps", "default", "second");
    assert_eq!(second["status"]["availableReplicas"], 2, "{second:#}");
}

#[tokio::test(start_paused = true)]
async fn a_quota_holds_pods_back_and_lets_them_in_later() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create(
        "resourcequotas",
        json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": "default"}, "spec": {"hard": {"pods": "2"}}}),
    )
    .await;
    test.create("deployments.apps", deployment("web", 3, "nginx")).await;
    test.pass(30).await;
    let quota = test.get("resourcequotas", "default", "small");
    assert_eq!(quota["status"], json!({"hard": {"pods": "2"}, "used": {"pods": "2"}}));
    let failure = test
        .conditions("deployments.apps", "web")
        .into_iter()
        .find(|c| c.starts_with("ReplicaFailure"));
    let failure = failure.expect("the refusal is told");
    assert!(
        failure.contains("exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"),
        "{failure}"
    );
    test.edit("resourcequotas", "small", |q| q["spec"]["hard"]["pods"] = json!("5")).await;
    test.pass(1_200).await;
    let web = test.get("deployments.apps", "default", "web");
    assert_eq!(web["status"]["availableReplicas"], 3, "{web:#}");
    assert!(
        !test.conditions("deployments.apps", "web").iter().any(|c| c.starts_with("ReplicaFailure"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_knows_what_can_be_missed() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create(
        "poddisruptionbudgets.policy",
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
    )
    .await;
    test.create("deployments.apps", deployment("web", 3, "nginx")).await;
    test.pass(30).await;
    let status = &test.get("poddisruptionbudgets.policy", "default", "web")["status"];
    assert_eq!(
        (&status["disruptionsAllowed"], &status["expectedPods"]),
        (&json!(1), &json!(3)),
        "{status:#}"
    );
}

#[tokio::test(start_paused = true)]
async fn after_convergence_nothing_is_written_for_an_hour() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    for name in ["a", "b", "c"] {
        test.create("deployments.apps", deployment(name, 3, "nginx")).await;
    }
    test.create("deployments.apps", deployment("stuck", 2, "nginx:1:2")).await;
    test.pass(700).await;
    let before = test.revision();
    let lines = test.env.trace.entries();
    test.pass(3_600).await;
    assert_eq!(test.revision(), before, "no write");
    assert_eq!(test.env.trace.entries(), lines, "not even a request");
}

async fn busy_day(seed: u64) -> (u64, u64) {
    let test = TestCluster::new(
        seed,
        WorkloadConfig { missing_images: vec!["gone/*".into()], ..WorkloadConfig::default() },
    );
    for (name, image) in [("a", "nginx"), ("b", "gone/app"), ("c", "bad:1:2")] {
        test.create("deployments.apps", deployment(name, 2, image)).await;
    }
    test.pass(30).await;
    test.edit("deployments.apps", "a", |d| d["spec"]["replicas"] = json!(4)).await;
    test.delete("deployments.apps", "default", "b", Propagation::Foreground).await;
    test.pass(60).await;
    (test.env.trace.hash(), test.revision())
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_day() {
    let first = busy_day(7).await;
    assert_eq!(first, busy_day(7).await);
    assert_ne!(first.0, busy_day(8).await.0);
}

#[tokio::test(start_paused = true)]
async fn stopped_controllers_do_nothing_and_go_on_when_started_again() {
    let mut test = TestCluster::new(1, WorkloadConfig::default());
    test.create("deployments.apps", deployment("web", 2, "nginx")).await;
    test.pass(10).await;
    test.running.take().unwrap().stop().await;
    test.edit("deployments.apps", "web", |d| d["spec"]["replicas"] = json!(4)).await;
    test.pass(60).await;
    assert_eq!(test.names("pods", "default").len(), 2);
    test.running = Some(test.workloads.spawn(test.cluster.clone()));
    test.pass(60).await;
    let web = test.get("deployments.apps", "default", "web");
    assert_eq!(web["status"]["availableReplicas"], 4);
    assert_eq!(test.names("nodes", "").len(), 2, "nodes are made once");
}

#[tokio::test(start_paused = true)]
async fn an_overdue_job_fails_and_its_pods_are_counted() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create("jobs.batch", json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "slow", "namespace": "default"},
        "spec": {"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 30, "template": {
            "metadata": {"annotations": {"workloads.flagship.dev/run-for": "5h"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}})).await;
    test.pass(120).await;
    assert_eq!(
        test.conditions("jobs.batch", "slow"),
        [
            "FailureTarget=True DeadlineExceeded: Job was active longer than specified deadline",
            "Failed=True DeadlineExceeded: Job was active longer than specified deadline",
        ]
    );
    assert_eq!(test.get("jobs.batch", "default", "slow")["status"]["failed"], 2);
    assert!(test.names("pods", "default").is_empty());
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_removed_node_are_made_anew_elsewhere() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create("deployments.apps", deployment("web", 4, "nginx")).await;
    test.pass(60).await;
    test.delete("nodes", "", "node-1", Propagation::Background).await;
    test.pass(60).await;
    let pods = test.list("pods", "default");
    assert_eq!(pods.len(), 4);
    assert!(pods.iter().all(|p| p["spec"]["nodeName"] == "node-2"), "{pods:#?}");
    assert_eq!(test.get("deployments.apps", "default", "web")["status"]["availableReplicas"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_runs_on_time_and_keeps_a_short_history() {
    let test = TestCluster::new(1, WorkloadConfig::default());
    test.create(
        "cronjobs.batch",
        json!({"apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "*/10 * * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "busybox"}]}}}}}}),
    )
    .await;
    test.pass(3_660).await;
    let jobs = test.list("jobs.batch", "default");
    assert_eq!(jobs.len(), 3, "{jobs:#?}");
    assert!(jobs.iter().all(|j| j["status"]["succeeded"] == 1));
    let cron = test.get("cronjobs.batch", "default", "tick");
    assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T01:00:00Z");
    assert_eq!(test.names("pods", "default").len(), 3);
}
