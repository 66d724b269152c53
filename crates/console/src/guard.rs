//! Who is let in on a loopback port: whoever has the key, from our own page, and nobody's
//! web site on their behalf. What holds of every console, `team`'s too, is [`from_our_page`].
//!
//! Any page in the browser may send requests to 127.0.0.1, and a foreign name may be made to
//! resolve to it. So the key is asked of every request, `Host` must be ours, `Origin` must be
//! ours where there is one, and a verb needs a header that a form cannot send.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use crate::view::field;

/// The header of verbs: a cross-site form cannot send it, and a script may not.
pub const VERB: HeaderName = HeaderName::from_static("x-flagship-verb");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// 256 random bits, as text.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(…)")
    }
}

impl Key {
    /// A new one.
    pub fn random() -> Result<Self, &'static str> {
        let mut bits = [0; 32];
        SystemRandom::new().fill(&mut bits).map_err(|_| "the system has no random numbers")?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bits)))
    }

    /// One that was kept; nothing else is taken for a key.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let bits = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bits.len() == 32).then(|| Self(text.to_owned()))
    }

    /// As it stands in the link.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares digests, so that the time it takes tells nothing of the key.
    fn is(&self, other: &str) -> bool {
        digest(&SHA256, self.0.as_bytes()).as_ref() == digest(&SHA256, other.as_bytes()).as_ref()
    }
}

/// Lets requests in.
#[derive(Clone, Debug)]
pub struct Guard {
    key: Key,
    hosts: Vec<String>,
    cookie: String,
}

/// What a refused request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// One sentence.
    pub says: &'static str,
}

pub(crate) const fn refusal(status: StatusCode, says: &'static str) -> Refusal {
    Refusal { status, says }
}

const FOREIGN_HOST: Refusal = refusal(
    StatusCode::FORBIDDEN,
    "This console answers only to 127.0.0.1 and localhost; open the link as it was printed.",
);
pub(crate) const FOREIGN_ORIGIN: Refusal =
    refusal(StatusCode::FORBIDDEN, "Only the console's own page may send requests here.");
const NO_KEY: Refusal = refusal(
    StatusCode::UNAUTHORIZED,
    "Open the link that `flagship up` or `flagship console` printed: it carries the key.",
);
pub(crate) const NOT_OURS: Refusal =
    refusal(StatusCode::FORBIDDEN, "A verb needs the header that the console's own page sends.");

impl Guard {
    /// Guards a loopback port. Cookies do not know ports, so the name says which one.
    pub fn loopback(key: Key, port: u16) -> Self {
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        Self { key, hosts: hosts.into(), cookie: format!("flagship-console-{port}") }
    }

    /// Lets the request in, or says why not. A request that carries the key in its address
    /// gets the cookie that replaces it.
    pub fn check(&self, request: &Parts) -> Result<Option<HeaderValue>, Refusal> {
        let host = host_of(request);
        if !self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host)) {
            return Err(FOREIGN_HOST);
        }
        from_our_page(request, "http://")?;
        let given = request.uri.query().and_then(|query| field(query, "key"));
        let cookie = cookie_of(request, &self.cookie);
        let known = |key: &String| self.key.is(key);
        let by_link = given.as_ref().is_some_and(known);
        if !by_link && !cookie.as_ref().is_some_and(known) {
            return Err(NO_KEY);
        }
        has_verb_header(request)?;
        Ok(by_link.then(|| self.set_cookie()).flatten())
    }

    fn set_cookie(&self) -> Option<HeaderValue> {
        let (name, key) = (&self.cookie, self.key.as_str());
        let text = format!("{name}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000");
        HeaderValue::from_str(&text).ok()
    }
}

/// Whom the request thinks it talks to. HTTP/2 has it in the address.
pub(crate) fn host_of(request: &Parts) -> &str {
    let named = request.headers.get(HOST).and_then(|host| host.to_str().ok());
    named.or_else(|| request.uri.authority().map(|host| host.as_str())).unwrap_or_default()
}

/// Refuses what another site's page sends, as far as a browser tells.
pub(crate) fn from_our_page(request: &Parts, scheme: &str) -> Result<(), Refusal> {
    if let Some(origin) = request.headers.get(ORIGIN) {
        let theirs = origin.to_str().unwrap_or_default().strip_prefix(scheme);
        if theirs.is_none_or(|theirs| !theirs.eq_ignore_ascii_case(host_of(request))) {
            return Err(FOREIGN_ORIGIN);
        }
    }
    // A link in a mail or a chat may open the page; nobody else's page may read from it.
    let site = request.headers.get(FETCH_SITE).and_then(|site| site.to_str().ok());
    let is_page = request.method == Method::GET && request.uri.path() == "/";
    match site {
        Some("cross-site" | "same-site") if !is_page => Err(FOREIGN_ORIGIN),
        _ => Ok(()),
    }
}

/// Whatever changes something needs the header that a form cannot send.
pub(crate) fn has_verb_header(request: &Parts) -> Result<(), Refusal> {
    let is_read = request.method == Method::GET;
    (is_read || request.headers.contains_key(VERB)).then_some(()).ok_or(NOT_OURS)
}

/// The cookie of this name.
pub(crate) fn cookie_of(request: &Parts, named: &str) -> Option<String> {
    let sent = request.headers.get_all(COOKIE).iter().filter_map(|sent| sent.to_str().ok());
    let mut pairs = sent.flat_map(|sent| sent.split(';')).filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(name, _)| name.trim() == named);
    found.map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn guard() -> Guard {
        Guard::loopback(Key::read(KEY).unwrap(), 6441)
    }

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const COOKIE: &str = "flagship-console-6441=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    fn asks(line: &str, headers: &[(&str, &str)]) -> Result<Option<HeaderValue>, Refusal> {
        let (method, uri) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(uri);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:6441");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard().check(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_key_is_long_random_and_not_printed_by_accident() {
        let (one, other) = (Key::random().unwrap(), Key::random().unwrap());
        assert_ne!(one, other);
        assert_eq!(URL_SAFE_NO_PAD.decode(one.as_str()).unwrap().len(), 32);
        assert_eq!(format!("{one:?}"), "Key(…)");
        assert_eq!(Key::read("short"), None);
        assert_eq!(Key::read(&format!(" {KEY}\n")).unwrap().as_str(), KEY);
    }

    #[test]
    fn the_link_lets_in_and_gives_a_cookie_that_scripts_and_other_sites_cannot_use() {
        let cookie = asks(&format!("GET /?key={KEY}"), &[]).unwrap().unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.starts_with(COOKIE), "{cookie}");
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(asks("GET /app.js", &[("cookie", COOKIE)]), Ok(None));
        let among = format!("theme=dark; {COOKIE}; a=b");
        assert_eq!(asks("GET /events?view=home", &[("cookie", &among)]), Ok(None));
    }

    #[test]
    fn without_the_key_nothing_is_shown() {
        for (line, cookie) in [
            ("GET /", ""),
            ("GET /app.js", ""),
            ("GET /events?view=home", ""),
            ("GET /?key=", ""),
            ("GET /?key=AAAA", ""),
            ("GET /", "flagship-console-6441="),
            ("GET /", "flagship-console-6440=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"),
        ] {
            assert_eq!(asks(line, &[("cookie", cookie)]), Err(NO_KEY), "{line} {cookie}");
        }
    }

    #[test]
    fn a_foreign_host_is_refused_even_with_the_key() {
        for host in ["evil.example:6441", "127.0.0.1", "127.0.0.1:6442", "localhost.evil:6441", ""]
        {
            let asked = asks("GET /", &[("host", host), ("cookie", COOKIE)]);
            assert_eq!(asked, Err(FOREIGN_HOST), "{host}");
        }
        for host in ["localhost:6441", "LOCALHOST:6441", "[::1]:6441"] {
            assert_eq!(asks("GET /", &[("host", host), ("cookie", COOKIE)]), Ok(None), "{host}");
        }
    }

    #[test]
    fn a_foreign_origin_is_refused_even_with_the_key() {
        let verb = ("x-flagship-verb", "1");
        for origin in [
            "http://evil.example",
            "https://127.0.0.1:6441",
            "http://127.0.0.1:8080",
            "http://localhost:6441",
            "null",
        ] {
            let headers = [("origin", origin), ("cookie", COOKIE), verb];
            assert_eq!(asks("POST /api/act", &headers), Err(FOREIGN_ORIGIN), "{origin}");
        }
        let ours = [("origin", "http://127.0.0.1:6441"), ("cookie", COOKIE), verb];
        assert_eq!(asks("POST /api/act", &ours), Ok(None));
    }

    #[test]
    fn a_cross_site_form_cannot_act() {
        // A form sends cookies of lax browsers and no header of its own.
        let form = [("cookie", COOKIE), ("content-type", "application/x-www-form-urlencoded")];
        assert_eq!(asks("POST /api/act", &form), Err(NOT_OURS));
        let marked =
            [("cookie", COOKIE), ("sec-fetch-site", "cross-site"), ("x-flagship-verb", "1")];
        assert_eq!(asks("POST /api/act", &marked), Err(FOREIGN_ORIGIN));
        assert_eq!(asks("GET /events?view=home", &marked), Err(FOREIGN_ORIGIN));
    }

    #[test]
    fn a_link_in_a_mail_may_open_the_page_and_nothing_else() {
        let mail = [("sec-fetch-site", "cross-site")];
        assert!(asks(&format!("GET /?key={KEY}"), &mail).is_ok());
        assert_eq!(asks(&format!("GET /api/view?view=home&key={KEY}"), &mail), Err(FOREIGN_ORIGIN));
    }
}
