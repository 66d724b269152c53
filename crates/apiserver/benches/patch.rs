//! What patches and server-side apply cost for a Deployment of 3 KB.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use flagship_apiserver::patch::apply::{Manager, apply, field_set, record_update};
use flagship_apiserver::patch::{json, merge, strategic};
use flagship_schema as schema;
use jiff::Timestamp;
use serde_json::{Value, json as value};

fn manager(name: &str) -> Manager<'_> {
    let time = Timestamp::from_second(1_767_225_600).expect("in range");
    Manager { name, api_version: "apps/v1", subresource: "", time }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("a file of this repository")
}

fn patches(c: &mut Criterion) {
    let schema = schema::builtin("apps", "v1", "Deployment").expect("Deployments are built in");
    let root = Some(schema.root());
    let config = parse(include_str!("patch/deployment.json"));
    let mut group = c.benchmark_group("deployment");

    // Owned by who applied it, by a controller that writes status, and by an autoscaler.
    let applied = apply(None, &config, &manager("ci"), false, root).expect("nothing to conflict");
    let mut live = applied.object.clone();
    live["status"] = value!({"replicas": 3, "readyReplicas": 3, "observedGeneration": 1,
        "conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True"}]});
    let controller = Manager { subresource: "status", ..manager("controller") };
    record_update(Some(&applied.object), &mut live, &controller, root);
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = 5.into();
    record_update(Some(&live), &mut scaled, &manager("hpa"), root);
    let live = scaled;

    group.bench_function("clone", |b| b.iter(|| black_box(&live).clone()));
    group.bench_function("field set", |b| b.iter(|| field_set(black_box(&config), root)));
    let mut status = live.clone();
    status["status"]["readyReplicas"] = 2.into();
    status["status"]["conditions"][0]["status"] = "False".into();
    group.bench_function("record status update", |b| {
        b.iter_batched_ref(
            || status.clone(),
            |new| record_update(Some(&live), new, &controller, root),
            BatchSize::SmallInput,
        );
    });
    let mut image = live.clone();
    image["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2".into();
    group.bench_function("record image update", |b| {
        b.iter_batched_ref(
            || image.clone(),
            |new| record_update(Some(&live), new, &manager("kubectl-set"), root),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("record create", |b| {
        b.iter_batched_ref(
            || config.clone(),
            |new| record_update(None, new, &manager("kubectl-create"), root),
            BatchSize::SmallInput,
        );
    });
    let mut next = config.clone();
    next["spec"]["template"]["spec"]["containers"][1]["image"] = "sidecar:2".into();
    if let Some(spec) = next["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    group.bench_function("apply, one field changed", |b| {
        b.iter(|| apply(Some(black_box(&live)), &next, &manager("ci"), false, root));
    });

    let set_image = value!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "web"}, {"name": "sidecar"}],
        "containers": [{"name": "web", "image": "web:2"}]}}}});
    group.bench_function("strategic merge of an image", |b| {
        b.iter(|| strategic(black_box(&live), &set_image, root));
    });
    let labels = value!({"metadata": {"labels": {"tier": null, "new": "label"}}});
    group.bench_function("merge patch of labels", |b| b.iter(|| merge(black_box(&live), &labels)));
    let operations = value!([{"op": "test", "path": "/metadata/name", "value": "web"},
        {"op": "replace", "path": "/spec/replicas", "value": 4}]);
    group.bench_function("json patch of replicas", |b| {
        b.iter(|| json(black_box(&live), &operations));
    });
    group.finish();

    let item = |i: usize, image: &str| value!({"name": format!("c{i}"), "image": image});
    let list = |image: &str, reverse: bool| {
        let mut items: Vec<Value> = (0..5000).map(|i| item(i, image)).collect();
        if reverse {
            items.reverse();
        }
        value!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {"template": {"spec": {"containers": items}}}})
    };
    let (old, new) = (list("a", false), list("b", true));
    let mut group = c.benchmark_group("5000 containers");
    group.sample_size(10);
    group.bench_function("strategic merge", |b| b.iter(|| strategic(&old, &new, root)));
    let tracked = apply(None, &old, &manager("ci"), false, root).expect("nothing to conflict");
    group.bench_function("apply", |b| {
        b.iter(|| apply(Some(&tracked.object), &new, &manager("ci"), false, root));
    });
    group.finish();
}

criterion_group!(benches, patches);
criterion_main!(benches);
