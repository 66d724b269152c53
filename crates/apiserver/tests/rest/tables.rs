//! Objects as the rows that `kubectl get` prints.

use serde_json::{Value, json};

use crate::harness::{GADGETS, MAPS, TestServer, gadget, gadget_definition};

const TABLE: &str = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn table(api: &TestServer, path: &str) -> Value {
    api.send_with("GET", path, &[TABLE], "").await.ok(200)
}

fn names(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    columns.filter_map(|column| column["name"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_is_a_table_with_the_metadata_of_each_object() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    tokio::time::advance(std::time::Duration::from_secs(90)).await;
    api.config("b", json!({})).await;
    let list = table(&api, &format!("{MAPS}?limit=1")).await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(names(&list), ["Name", "Data", "Age"]);
    assert_eq!(list["columnDefinitions"][0]["format"], "name");
    assert_eq!(list["rows"].as_array().unwrap().len(), 1);
    assert_eq!(list["rows"][0]["cells"], json!(["a", 1, "90s"]));
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(list["rows"][0]["object"]["metadata"]["name"], "a");
    assert_eq!(list["metadata"]["remainingItemCount"], 1);
    let token = list["metadata"]["continue"].as_str().unwrap();
    let rest = table(&api, &format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!(rest["rows"][0]["cells"], json!(["b", 1, "0s"]));
}

#[tokio::test(start_paused = true)]
async fn one_object_is_a_table_of_one_row_with_as_much_of_it_as_asked() {
    let api = TestServer::new();
    let made = api.config("a", json!({})).await;
    let one = table(&api, &format!("{MAPS}/a")).await;
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);
    assert_eq!(one["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let whole = table(&api, &format!("{MAPS}/a?includeObject=Object")).await;
    assert_eq!(whole["rows"][0]["object"], made);
    let none = table(&api, &format!("{MAPS}/a?includeObject=None")).await;
    assert_eq!(none["rows"][0]["object"], Value::Null);
    let odd = api.send_with("GET", &format!("{MAPS}/a?includeObject=Some"), &[TABLE], "").await;
    assert_eq!(odd.code, 400);
    let missing = api.send_with("GET", &format!("{MAPS}/none"), &[TABLE], "").await;
    assert_eq!((missing.code, &missing.body["kind"]), (404, &json!("Status")));
}

#[tokio::test(start_paused = true)]
async fn the_columns_come_with_the_first_event_of_a_watch() {
    let api = TestServer::new();
    api.config("a", json!({})).await;
    api.config("b", json!({})).await;
    let mut watch = api.watch_with(&format!("{MAPS}?watch=1"), &[TABLE]).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.push(watch.next().await.unwrap());
    }
    assert_eq!(seen[0]["object"]["kind"], "Table");
    assert_eq!(names(&seen[0]["object"]), ["Name", "Data", "Age"]);
    assert_eq!(seen[0]["object"]["rows"][0]["cells"][0], "a");
    assert_eq!(seen[1]["object"]["columnDefinitions"], Value::Null);
    assert_eq!(seen[1]["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test(start_paused = true)]
async fn custom_kinds_show_the_columns_of_their_definition() {
    let api = TestServer::new();
    let mut crd = gadget_definition();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        version["additionalPrinterColumns"] = json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status", "priority": 1},
            {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]);
    }
    api.define(crd).await;
    api.post(GADGETS, gadget("g", 3)).await.ok(201);
    let list = table(&api, GADGETS).await;
    assert_eq!(names(&list), ["Name", "Size", "Ready", "Since"]);
    assert_eq!(list["columnDefinitions"][2]["priority"], 1);
    assert_eq!(list["rows"][0]["cells"], json!(["g", 3, null, "0s"]));
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_a_table_too() {
    let api = TestServer::new();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"app": "web"});
    api.post(path, json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "i"}]}},
    }})).await.ok(201);
    let scale = table(&api, &format!("{path}/web/scale")).await;
    assert_eq!(names(&scale), ["Name", "Desired", "Available", "Age"]);
    assert_eq!(scale["rows"][0]["cells"], json!(["web", 2, 0, "0s"]));
}
