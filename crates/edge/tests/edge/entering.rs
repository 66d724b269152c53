//! Who is let in, and where to.

use flagship_apiserver::rest::Server;
use flagship_edge::{Authority, Config, Edge};
use flagship_store::env::Env;
use serde_json::json;

use crate::client::{TOKEN, TestServer, get, post};

const NAMESPACES: &str = "/clusters/hub/api/v1/namespaces";

#[tokio::test]
async fn a_master_is_served_over_http1_and_http2() {
    let api = TestServer::new().await;
    let admin = api.admin();
    let list = api.get(Some(&admin), NAMESPACES).await;
    assert_eq!((list.code, list.json()["kind"].as_str()), (200, Some("NamespaceList")));
    let paths = [NAMESPACES, "/clusters/member1/version", "/clusters/none/version"];
    let codes: Vec<u16> =
        api.get_http2(Some(&admin), &paths).await.iter().map(|reply| reply.code).collect();
    assert_eq!(codes, [200, 200, 404]);
}

#[tokio::test]
async fn who_may_is_shown_around_and_what_came_is_counted() {
    let api = TestServer::new().await;
    let admin = api.admin();
    let index = api.get(Some(&admin), "/").await.json();
    let shown = ["/clusters/hub", "/clusters/member1", "/healthz", "/livez", "/metrics", "/readyz"];
    assert_eq!(index["paths"], serde_json::json!(shown));
    for path in ["/", "/metrics", "/clusters/hub/", "/clusters/hub/metrics"] {
        assert_eq!(api.get(None, path).await.code, 403, "{path}");
    }
    let metrics = api.get(Some(&admin), "/metrics").await.text;
    assert!(metrics.contains("flagship_edge_connections{step=\"known\"} "), "{metrics}");
    api.get(Some(&admin), "/clusters/hub/api/v1/namespaces/default").await;
    api.get(None, "/clusters/hub/api/v1/namespaces/default").await;
    let counted = api.get(Some(&admin), "/clusters/hub/metrics").await.text;
    for code in [200, 403] {
        let line = format!(
            "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"\",\
             group=\"\",resource=\"namespaces\",scope=\"resource\",subresource=\"\",\
             verb=\"GET\",version=\"v1\"}} 1\n"
        );
        assert!(counted.contains(&line), "{counted}");
    }
    assert!(!api.get(Some(&admin), "/clusters/member1/metrics").await.text.contains("=\"403\""));
}

#[tokio::test]
async fn strangers_see_health_and_version_and_cannot_tell_which_clusters_exist() {
    let api = TestServer::new().await;
    for path in ["/healthz", "/readyz", "/clusters/hub/livez"] {
        let reply = api.get(None, path).await;
        assert_eq!((reply.code, reply.text.as_str()), (200, "ok"), "{path}");
    }
    assert_eq!(api.get(None, "/clusters/hub/version").await.code, 200);
    let refusal = api.get(None, NAMESPACES).await.refusal();
    assert_eq!(
        refusal,
        (
            403,
            r#"namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in API group "" at the cluster scope"#.to_owned()
        )
    );
    let nowhere = api.get(None, "/clusters/none/api/v1/namespaces").await.refusal();
    assert_eq!(nowhere, refusal);
    assert_eq!(api.get(None, "/clusters").await.code, 403);
}

#[tokio::test]
async fn tokens_are_known_weak_or_wrong() {
    let api = TestServer::new().await;
    let codes = async |token: &str| {
        let header = format!("Authorization: Bearer {token}");
        let list = api.send(None, get(NAMESPACES, &[&header])).await.code;
        let discovery = api.send(None, get("/clusters/hub/apis", &[&header])).await.code;
        (list, discovery)
    };
    assert_eq!(codes(TOKEN).await, (200, 200));
    assert_eq!(codes("weak").await, (403, 200));
    assert_eq!(codes("wrong").await, (401, 401));
}

#[tokio::test]
async fn impersonating_gives_rights_away() {
    let api = TestServer::new().await;
    let admin = api.admin();
    let reply = api.send(Some(&admin), get(NAMESPACES, &["Impersonate-User: bob"])).await;
    assert_eq!(reply.code, 403);
    assert!(reply.text.contains(r#"User \"bob\" cannot list"#), "{}", reply.text);
    let half = api.send(Some(&admin), get(NAMESPACES, &["Impersonate-Group: devs"])).await;
    assert_eq!(half.code, 400);
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_no_certificate() {
    let api = TestServer::new().await;
    let other = Authority::create(api.env.clock.now()).unwrap();
    let forged = other.client("admin", Some("system:masters"), api.env.clock.now()).unwrap();
    let stream = api.try_connect(api.edge.address(), Some(&forged), "http/1.1").await;
    // TLS 1.3 tells the client after its handshake: the first read fails.
    if let Ok(mut stream) = stream {
        use tokio::io::AsyncReadExt;
        assert!(stream.read_u8().await.is_err());
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_good_yet_or_any_more_is_refused() {
    let api = TestServer::new().await;
    let hours = jiff::SignedDuration::from_hours;
    for shift in [hours(24 * 3), hours(-24 * 400)] {
        let then = api.env.clock.now().checked_add(shift).unwrap();
        let shown = api.edge.authority().client("admin", Some("system:masters"), then).unwrap();
        let stream = api.try_connect(api.edge.address(), Some(&shown), "http/1.1").await;
        if let Ok(mut stream) = stream {
            use tokio::io::AsyncReadExt;
            assert!(stream.read_u8().await.is_err(), "{shift}");
        }
    }
}

#[tokio::test]
async fn a_wrong_token_is_forgiven_beside_a_good_certificate() {
    let api = TestServer::new().await;
    let request = || get(NAMESPACES, &["Authorization: Bearer wrong"]);
    assert_eq!(api.send(Some(&api.admin()), request()).await.code, 200);
    assert_eq!(api.send(None, request()).await.code, 401);
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_a_missing_page() {
    let api = TestServer::new().await;
    let admin = api.admin();
    for path in ["/clusters/hub/apis/none/v1/x", "/clusters/hub/apis/none/v1", "/clusters/hub/x"] {
        let reply = api.get(Some(&admin), path).await;
        assert_eq!((reply.code, reply.text.as_str()), (404, "404 page not found\n"), "{path}");
    }
    let missing = api.get(Some(&admin), "/clusters/hub/api/v1/nodes/none").await;
    assert_eq!(missing.refusal(), (404, "nodes \"none\" not found".to_owned()));
}

#[tokio::test]
async fn a_cluster_may_have_a_port_of_its_own() {
    let api = TestServer::new().await;
    let own = api.edge.open("member1", TestServer::any_port()).await.unwrap();
    assert_eq!(api.edge.url("member1"), format!("https://{own}"));
    assert_eq!(api.edge.url("hub"), format!("https://{}/clusters/hub", api.edge.address()));
    let admin = api.admin();
    let stream = api.try_connect(own, Some(&admin), "http/1.1").await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut codes = Vec::new();
    for path in ["/api/v1/namespaces", NAMESPACES] {
        let request = get(path, &[]);
        codes.push(crate::client::read(sender.send_request(request).await.unwrap()).await.code);
    }
    assert_eq!(codes, [200, 404]);
}

#[tokio::test]
async fn fields_are_owned_by_the_program_and_written_by_the_user() {
    let api = TestServer::new().await;
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}}).to_string();
    let headers = ["Content-Type: application/json", "User-Agent: tool/1.0"];
    let made = api.send(Some(&api.admin()), post(&headers, body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(made.json()["metadata"]["managedFields"][0]["manager"], "tool");
}

#[tokio::test]
async fn the_kubeconfig_leads_to_every_cluster() {
    let api = TestServer::new().await;
    let config = api.edge.kubeconfig().unwrap().with_current("member1");
    let value = config.to_value();
    let names: Vec<&str> =
        value["contexts"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["hub", "member1"]);
    assert_eq!(value["current-context"], "member1");
    assert_eq!(value["clusters"][0]["cluster"]["server"], api.edge.url("hub"));
}

#[tokio::test]
async fn every_start_writes_the_same_administrator_into_the_kubeconfig() {
    let folder = std::env::temp_dir().join(format!("flagship-admin-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&folder));
    let env = Env::system();
    let mut shown = Vec::new();
    for _ in 0..2 {
        let authority = Authority::at(&folder, env.clock.now()).unwrap();
        let config = Config::local(0, authority);
        let edge = Edge::start(&Server::new(env.clone()), &env, config).await.unwrap();
        shown.push(edge.kubeconfig().unwrap().to_value()["users"].clone());
        edge.shutdown().await;
    }
    assert_eq!(shown[0], shown[1]);
    std::fs::remove_dir_all(&folder).unwrap();
}
