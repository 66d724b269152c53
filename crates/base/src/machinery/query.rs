//! Query strings and percent encoding.

/// The parameters of a query string, in order, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string. Empty parameters (`?&a=b`) are skipped, as Go does;
    /// `Err` carries the text that cannot be decoded.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let read = |raw: &str| decode(&raw.replace('+', " ")).ok_or_else(|| raw.to_owned());
            pairs.push((read(key)?, read(value)?));
        }
        Ok(Self(pairs))
    }

    /// The first value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Every value of `key`.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The same with another value of `key`, whatever it was.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.0.retain(|(k, _)| k != key);
        self.0.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A switch: absent is false, and so are `false` and `0`; a bare `?watch` is true.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| !matches!(value, "false" | "0"))
    }
}

/// Undoes percent encoding. `None` for a broken escape or bytes that are not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push((high * 16 + low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_queries_are_read() {
        let query = Query::parse("&watch=true&labelSelector=a%3Db%2Cc+d&x&x=2&").unwrap();
        assert!(query.flag("watch"));
        assert_eq!(query.get("labelSelector"), Some("a=b,c d"));
        assert_eq!(query.all("x").collect::<Vec<_>>(), ["", "2"]);
        assert!(!query.flag("missing"));
        assert!(!Query::parse("watch=0").unwrap().flag("watch"));
        assert!(Query::parse("watch").unwrap().flag("watch"));
        assert_eq!(Query::parse("").unwrap(), Query::default());
    }

    #[test]
    fn broken_escapes_are_named() {
        assert_eq!(Query::parse("a=%zz"), Err("%zz".to_owned()));
        assert_eq!(Query::parse("a=%f"), Err("%f".to_owned()));
        assert_eq!(Query::parse("%ff=1"), Err("%ff".to_owned()));
    }
}
