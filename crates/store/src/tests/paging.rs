//! Reading a list in pages while it changes.

use std::time::Duration;

use super::*;

/// Reads one page of two and says what was in it, with the token for the next.
fn page(store: &Store, token: Option<&str>) -> Result<(String, Option<String>), PageError> {
    let (snapshot, start) = match token {
        None => (Arc::new(store.list("pods", Scope::All)), 0),
        Some(token) => store.resume_page("pods", Scope::All, "all", token)?,
    };
    let items = &snapshot.items[start..snapshot.items.len().min(start + 2)];
    let names: Vec<String> = items.iter().map(|object| line(object)).collect();
    let more = start + 2 < snapshot.items.len();
    let next = more.then(|| store.page_token("pods", "all", &snapshot, &items[1].key));
    Ok((names.join(", "), next))
}

fn five(limits: Limits) -> Arc<Store> {
    let store = Store::new(Env::simulated(1), limits);
    for name in ["a/1", "a/2", "a/3", "a/4", "a/5"] {
        store.set("pods", name, "web", 0);
    }
    store
}

fn churn(store: &Store) {
    for content in 1..40 {
        store.set("pods", "a/3", "web", content);
    }
    store.unset("pods", "a/2");
    store.set("pods", "a/0", "web", 1);
}

#[test]
fn all_pages_show_one_snapshot() {
    // Kept snapshots outlive the history; without them the history serves.
    for limits in
        [Limits { history: 2, ..Limits::default() }, Limits { pages: 0, ..Limits::default() }]
    {
        let store = five(limits);
        let (first, token) = page(&store, None).unwrap();
        churn(&store);
        let (second, token) = page(&store, token.as_deref()).unwrap();
        let (third, token) = page(&store, token.as_deref()).unwrap();
        assert_eq!(first, "a/1 web=0 @2, a/2 web=0 @3");
        assert_eq!(second, "a/3 web=0 @4, a/4 web=0 @5");
        assert_eq!((third.as_str(), token), ("a/5 web=0 @6", None));
    }
}

#[test]
fn an_altered_or_foreign_token_is_refused() {
    let store = five(Limits::default());
    let token = page(&store, None).unwrap().1.unwrap();
    for at in 0..token.len() {
        let mut letters = token.clone().into_bytes();
        letters[at] = if letters[at] == b'A' { b'B' } else { b'A' };
        let altered = String::from_utf8(letters).unwrap();
        assert_eq!(page(&store, Some(&altered)), Err(PageError::Invalid), "letter {at}");
    }
    let long = "A".repeat(5000);
    for bad in ["", "A", "not a token", "ü", &token[1..], long.as_str()] {
        assert_eq!(page(&store, Some(bad)), Err(PageError::Invalid), "{bad}");
    }
    let resume = |resource, query| store.resume_page(resource, Scope::All, query, &token);
    assert_eq!(resume("pods", "app=web").unwrap_err().to_string(), "continue key is not valid");
    assert_eq!(resume("works", "all").unwrap_err(), PageError::Invalid);
    let other = Store::new(Env::simulated(2), Limits::default());
    assert_eq!(page(&other, Some(&token)), Err(PageError::Invalid));
    assert!(page(&store, Some(&token)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_token_expires_when_neither_snapshot_nor_history_is_left() {
    let limits = Limits { history: 10, ..Limits::default() };
    let store = five(limits);
    let token = page(&store, None).unwrap().1;
    churn(&store);
    tokio::time::advance(Duration::from_secs(299)).await;
    assert!(page(&store, token.as_deref()).is_ok());
    // Reading on has kept it alive.
    tokio::time::advance(Duration::from_secs(299)).await;
    assert!(page(&store, token.as_deref()).is_ok());
    tokio::time::advance(Duration::from_secs(300)).await;
    let error = page(&store, token.as_deref()).unwrap_err();
    assert_eq!(error, PageError::Expired(Expired { asked: 6, oldest: 37 }));
}

#[test]
fn the_oldest_snapshots_make_room_and_compaction_takes_all() {
    let limits = Limits { pages: 2, history: 1, ..Limits::default() };
    let store = five(limits);
    let mut tokens = Vec::new();
    for content in 0..3 {
        tokens.push(page(&store, None).unwrap().1.unwrap());
        store.set("pods", "a/1", "web", content);
        store.set("pods", "a/1", "web", content);
    }
    let served = |token: &String| page(&store, Some(token)).is_ok();
    assert_eq!(tokens.iter().map(served).collect::<Vec<_>>(), [false, true, true]);
    store.compact(Some("pods"), u64::MAX);
    assert_eq!(tokens.iter().map(served).collect::<Vec<_>>(), [false, false, false]);
}
