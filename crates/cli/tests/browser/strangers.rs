//! Whoever comes from elsewhere: another name, another site, no key, a form.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::driver::Browser;
use crate::fleet::Fleet;
use crate::stories::skipped;

/// A site that serves this page to whoever asks, until the process ends.
fn site(page: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let mut socket = socket;
            let mut asked = [0; 4096];
            let read = socket.read(&mut asked);
            let length = page.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{page}"
            );
            drop((read, socket.write_all(answer.as_bytes())));
        }
    });
    port
}

/// The whole answer to a request as it is written.
fn raw(port: u16, head: &str) -> String {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(socket, "{head}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_foreign_host_origin_a_missing_key_and_a_cross_site_form_are_refused() {
    if skipped() {
        return;
    }
    let fleet = Fleet::new("console-strangers");
    let port: u16 = fleet.link.split([':', '/']).nth(4).unwrap().parse().unwrap();
    let key = fleet.link.split("key=").nth(1).unwrap();
    let cookie = format!("Cookie: flagship-console-{port}={key}");
    for (head, status, says) in [
        (format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}"), 401, "it carries the key"),
        (
            format!("GET /?key={key} HTTP/1.1\r\nHost: evil.example:{port}"),
            403,
            "answers only to 127.0.0.1",
        ),
        (
            format!(
                "GET /api/view?view=home HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n{cookie}"
            ),
            403,
            "Only the console's own page",
        ),
        (
            format!(
                "POST /api/act HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n{cookie}"
            ),
            403,
            "A verb needs the header",
        ),
    ] {
        let answer = raw(port, &head);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}\n{answer}");
        assert!(answer.contains(says), "{head}\n{answer}");
        assert!(answer.contains("content-security-policy: default-src 'self'"), "{answer}");
    }

    // The same in a browser that has the cookie.
    let browser = Browser::start();
    let text = "return document.body.textContent";
    browser.open(&fleet.link);
    browser.until("document.querySelector('.s-approval')");
    browser.open(&format!("http://evil.example:{port}/?key={key}"));
    let said = browser.run(text);
    assert!(said.as_str().unwrap().contains("answers only to 127.0.0.1"), "{said}");
    let stop = r#"{"verb":"stop","run":"demo-run","x":"#;
    let form = format!(
        "<form method=post enctype=text/plain action='http://127.0.0.1:{port}/api/act'><input name='{stop}' value='}}'></form><script>document.forms[0].submit()</script>"
    );
    browser.open(&format!("http://localhost:{}/", site(form)));
    let said = browser
        .until("document.body?.textContent.includes('console') && document.body.textContent");
    assert!(said.as_str().unwrap().contains("Only the console's own page"), "{said}");
    let script = format!(
        "<p id=told></p><script>fetch('http://127.0.0.1:{port}/api/view?view=home', {{credentials: 'include'}}).then((a) => a.text()).then((t) => told.textContent = t, () => told.textContent = 'refused')</script>"
    );
    browser.open(&format!("http://localhost:{}/", site(script)));
    let said = browser.until("document.getElementById('told')?.textContent");
    assert_eq!(said, "refused");
    let frame = format!("<iframe src='http://127.0.0.1:{port}/'></iframe>");
    browser.open(&format!("http://localhost:{}/", site(frame)));
    browser.until("document.querySelector('iframe')");
    let run = fleet.line(
        "kubectl --context hub get clusterstagedupdaterun demo-run -o jsonpath={.spec.state}",
    );
    assert_eq!(run, "Run", "nobody stopped it");
}
