//! A browser over WebDriver: the few requests our stories need, and no client library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A browser with one page. It ends with the value.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

/// Why there is no browser here, or none is wanted: a browser and a fleet take their time.
pub fn missing() -> Option<String> {
    if std::env::var_os("FLAGSHIP_BROWSER").is_none() {
        return Some("FLAGSHIP_BROWSER=1 tells it".to_owned());
    }
    for program in ["chromium", "chromedriver", "kubectl"] {
        let there = Command::new(program)
            .arg(if program == "kubectl" { "help" } else { "--version" })
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if there.is_err() {
            return Some(format!(
                "there is no {program}; see scripts/chromium and scripts/kubectl"
            ));
        }
    }
    None
}

impl Browser {
    /// Starts a browser of 1440 by 900 pixels.
    pub fn start() -> Self {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver was there a moment ago");
        let said = BufReader::new(driver.stdout.take().expect("it is piped"));
        let port = said
            .lines()
            .map_while(Result::ok)
            .find_map(|line| {
                line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok()
            })
            .expect("chromedriver says where it listens");
        // A name that resolves to this machine, as an attacker's may.
        let rebound = "--host-resolver-rules=MAP evil.example 127.0.0.1";
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--lang=en",
            rebound,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome",
            "acceptInsecureCerts": true, "timeouts": {"script": 120_000},
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": which("chromium"), "args": arguments}}}});
        let mut browser = Self { driver, port, session: String::new() };
        let begun = browser.ask("POST", "/session", Some(&wanted));
        browser.session = begun["sessionId"].as_str().expect("a session has a name").to_owned();
        browser.look(1440, 900, "light");
        browser
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = body.len();
        write!(
            socket,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        // It keeps connections open, whatever it is asked.
        let mut answer = BufReader::new(socket);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(told) = line.strip_prefix("content-length:") {
                length = told.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body).unwrap();
        let body = String::from_utf8_lossy(&body);
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
        let error = &answer["value"]["message"];
        assert!(answer["value"]["error"].is_null(), "{path}: {error}\n{}", self.logs());
        answer["value"].clone()
    }

    fn session(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.ask(method, &format!("/session/{}{path}", self.session), body)
    }

    fn devtools(&self, command: &str, parameters: Value) -> Value {
        let body = json!({"cmd": command, "params": parameters});
        self.session("POST", "/goog/cdp/execute", Some(&body))
    }

    /// Another size, light or dark.
    pub fn look(&self, width: u32, height: u32, scheme: &str) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", scheme);
    }

    /// Opens an address.
    pub fn open(&self, url: &str) {
        self.session("POST", "/url", Some(&json!({"url": url})));
    }

    /// Runs a script, and hands out what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.session("POST", "/execute/sync", Some(&json!({"script": script, "args": []})))
    }

    /// Waits in the page until the expression is true, and hands out what it is.
    pub fn until(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             const look = () => {{ let found; try {{ found = ({expression}); }} catch {{}}
               if (found) {{ clearInterval(timer); done(found === true ? true : found); }} }};
             const timer = setInterval(look, 50); look();"
        );
        let body = json!({"script": script, "args": []});
        self.session("POST", "/execute/async", Some(&body))
    }

    /// Clicks, as a person does, on the element whose text this is, once it is there.
    pub fn click(&self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        let found = format!(
            "[...document.querySelectorAll({selector})].find((el) => el.textContent.trim().startsWith({text}))"
        );
        let element = self.until(&found);
        let id = element.as_object().and_then(|element| element.values().next()).cloned();
        let id = id.unwrap_or_default();
        let id = id.as_str().unwrap_or_else(|| panic!("no element {selector} {text}"));
        self.session("POST", &format!("/element/{id}/click"), Some(&json!({})));
    }

    /// Types on the keyboard, wherever the focus is.
    pub fn keys(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]});
        self.session("POST", "/actions", Some(&body));
    }

    /// Draws what is seen.
    pub fn picture(&self, path: &Path) {
        use std::process::Stdio;
        let shot = self.devtools("Page.captureScreenshot", json!({"format": "png"}));
        let encoded = shot["data"].as_str().unwrap_or_default();
        let mut decode = Command::new("base64")
            .args(["-d"])
            .stdin(Stdio::piped())
            .stdout(std::fs::File::create(path).unwrap())
            .spawn()
            .unwrap();
        decode.stdin.take().unwrap().write_all(encoded.as_bytes()).unwrap();
        assert!(decode.wait().unwrap().success());
    }

    /// What the page complained of.
    pub fn logs(&self) -> String {
        if self.session.is_empty() {
            return String::new();
        }
        let body = json!({"type": "browser"});
        let found = self.session("POST", "/se/log", Some(&body));
        let lines = found.as_array().into_iter().flatten();
        lines.map(|line| format!("{}\n", line["message"].as_str().unwrap_or_default())).collect()
    }
}

fn which(program: &str) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(program));
    let found = all.find(|path| path.is_file()).expect("it ran a moment ago");
    found.to_string_lossy().into_owned()
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.session("DELETE", "", None);
        }
        drop(self.driver.kill());
        drop(self.driver.wait());
    }
}
