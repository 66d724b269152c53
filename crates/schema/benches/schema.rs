//! What a write to a staged update strategy costs in the schema: prune, default, validate,
//! rules. `cargo bench -p flagship-schema`

#![allow(missing_docs, reason = "criterion's macros write undocumented functions")]

use criterion::{Criterion, criterion_group, criterion_main};
use flagship_schema::{Compiled, builtin, decode_error};
use serde_json::{Value, json};

/// The shape of KubeFleet's strategies: five stages with tasks, selectors and rules.
fn schema() -> Value {
    let task = json!({"type": "object", "required": ["type"], "properties": {
        "type": {"type": "string", "enum": ["TimedWait", "Approval"]},
        "waitTime": {"type": "string", "pattern": r"^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$"},
    }});
    let selector = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "matchLabels": {"type": "object", "additionalProperties": {"type": "string"}},
        "matchExpressions": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {
            "type": "object", "required": ["key", "operator"], "properties": {
                "key": {"type": "string"}, "operator": {"type": "string"},
                "values": {"type": "array", "items": {"type": "string"}}}}},
    }});
    let stage = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]+$"},
        "sortingLabelKey": {"type": "string"},
        "labelSelector": selector,
        "maxConcurrency": {
            "x-kubernetes-int-or-string": true, "default": 1, "pattern": "^(100|[1-9][0-9]?)%$",
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-validations": [{"rule": "self == null || type(self) != int || self >= 1", "message": "maxConcurrency must be at least 1"}],
        },
        "beforeStageTasks": {"type": "array", "maxItems": 1, "items": task, "x-kubernetes-validations": [
            {"rule": "!self.exists(e, e.type == 'Approval' && has(e.waitTime))", "message": "waitTime is not allowed"},
            {"rule": "!self.exists(e, e.type == 'TimedWait')", "message": "cannot be TimedWait"}]},
        "afterStageTasks": {"type": "array", "maxItems": 2, "items": task, "x-kubernetes-validations": [
            {"rule": "!self.exists(e, e.type == 'Approval' && has(e.waitTime))", "message": "waitTime is not allowed"},
            {"rule": "!self.exists(e, e.type == 'TimedWait' && !has(e.waitTime))", "message": "waitTime is required"}]},
    }});
    json!({"type": "object", "required": ["spec"], "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "required": ["stages"], "properties": {
            "stages": {"type": "array", "maxItems": 31, "items": stage}}},
    }, "x-kubernetes-validations": [{"rule": "size(self.metadata.name) < 64", "message": "metadata.name max length is 63"}]})
}

fn strategy(stages: usize) -> Value {
    let stage = |i: usize| {
        json!({
            "name": format!("stage{i}"),
            "labelSelector": {"matchLabels": {"environment": "prod", "ring": format!("{i}")},
                "matchExpressions": [{"key": "region", "operator": "In", "values": ["a", "b", "c"]}]},
            "sortingLabelKey": "order",
            "beforeStageTasks": [{"type": "Approval"}],
            "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "1h30m"}],
        })
    };
    json!({
        "apiVersion": "placement.example.com/v1", "kind": "Strategy",
        "metadata": {"name": "rollout", "labels": {"team": "web"}, "annotations": {"note": "x"}},
        "spec": {"stages": (0..stages).map(stage).collect::<Vec<_>>()},
    })
}

fn pod_template() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{
                "name": "c", "image": "registry/web:1", "ports": [{"containerPort": 80}],
                "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}}}})
}

fn benches(c: &mut Criterion) {
    let schema = schema();
    let compiled = Compiled::from_crd_version(&schema).expect("the schema is fine");
    for stages in [1, 5, 31] {
        let fresh = strategy(stages);
        let mut ready = fresh.clone();
        compiled.apply_defaults(&mut ready);
        assert!(compiled.validate(&ready, None).is_empty());
        c.bench_function(&format!("prune+default+validate+rules, {stages} stages"), |b| {
            b.iter_batched(
                || fresh.clone(),
                |mut object| {
                    compiled.prune(&mut object);
                    compiled.apply_defaults(&mut object);
                    let found = compiled.validate(&object, Some(&ready));
                    (found, object)
                },
                criterion::BatchSize::SmallInput,
            );
        });
        c.bench_function(&format!("unknown fields, {stages} stages"), |b| {
            b.iter(|| compiled.unknown_fields(&ready));
        });
    }
    c.bench_function("compile the schema", |b| {
        b.iter(|| Compiled::from_crd_version(&schema).map_err(|_| ()));
    });
    let deployment = builtin("apps", "v1", "Deployment").expect("in the table");
    let object = pod_template();
    c.bench_function("decode check and unknown fields of a Deployment", |b| {
        b.iter(|| (decode_error(&deployment, &object), deployment.unknown_fields(&object)));
    });
    hostile(c);
}

/// The most that a rule may take before it is stopped.
fn hostile(c: &mut Criterion) {
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.n.all(a, self.n.all(b, self.n.all(c, a + b + c >= 0)))"}]});
    let compiled = Compiled::from_crd_version(&schema).expect("the schema is fine");
    let object = json!({"n": (0..5000).collect::<Vec<_>>()});
    let mut group = c.benchmark_group("hostile");
    group.sample_size(10);
    group.bench_function("three loops over 5000", |b| b.iter(|| compiled.validate(&object, None)));
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
