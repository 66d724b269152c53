//! Image references: which ones parse, what they mean in full, and what is said
//! when they do not.
//!
//! The grammar is that of container registries: `[host[:port]/]path[:tag][@digest]`,
//! where a path is lowercase and a lone name means Docker's library.

/// A reference in full, such as `docker.io/library/nginx:1.28`.
pub fn parse(image: &str) -> Result<String, String> {
    let says = |why: &str| Err(format!("couldn't parse image name {image:?}: {why}"));
    const FORMAT: &str = "invalid reference format";
    if image.len() == 64 && image.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
    {
        return says(&format!(
            "invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
        ));
    }
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let (host, remainder) = split_host(name);
    // A colon after the last slash starts the tag.
    let (path, tag) = match remainder.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (remainder.as_str(), None),
    };
    if path.bytes().any(|b| b.is_ascii_uppercase()) && is_path(&path.to_ascii_lowercase()) {
        return says(&format!("{FORMAT}: repository name ({path}) must be lowercase"));
    }
    let fits = is_host(&host)
        && is_path(path)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
        && !path.is_empty();
    if !fits {
        return says(FORMAT);
    }
    if host.len() + path.len() >= 255 {
        return says("repository name must not be more than 255 characters");
    }
    let mut full = format!("{host}/{path}");
    match (tag, digest) {
        (None, None) => full.push_str(":latest"),
        _ => {
            full.extend(tag.map(|t| format!(":{t}")));
            full.extend(digest.map(|d| format!("@{d}")));
        }
    }
    Ok(full)
}

/// The repository of a full reference, without tag and digest.
pub fn repository(full: &str) -> &str {
    let name = full.split_once('@').map_or(full, |(name, _)| name);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

fn split_host(name: &str) -> (String, String) {
    let hub = "docker.io";
    let looks_like_host = |first: &str| {
        first.contains(['.', ':']) || first == "localhost" || first != first.to_ascii_lowercase()
    };
    match name.split_once('/') {
        Some((first, rest)) if looks_like_host(first) => {
            let host = if first == "index.docker.io" { hub } else { first };
            let is_short = host == hub && !rest.contains('/');
            (host.to_owned(), if is_short { format!("library/{rest}") } else { rest.to_owned() })
        }
        Some(_) => (hub.to_owned(), name.to_owned()),
        None => (hub.to_owned(), format!("library/{name}")),
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.starts_with('[') || name.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let label = |l: &str| {
        !l.is_empty()
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    let v6 = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
    let named = match v6 {
        Some(inner) => {
            !inner.is_empty() && inner.bytes().all(|b| b.is_ascii_hexdigit() || b == b':')
        }
        None => name.split('.').all(label),
    };
    named && port.is_none_or(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
}

fn is_path(path: &str) -> bool {
    path.split('/').all(|part| {
        let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        ends(part.bytes().next()) && ends(part.bytes().next_back()) && has_good_separators(part)
    })
}

/// Between letters and digits: one dot, one or two underscores, or dashes.
fn has_good_separators(part: &str) -> bool {
    let mut run = String::new();
    for c in part.chars() {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            let fits =
                matches!(run.as_str(), "" | "." | "_" | "__") || run.chars().all(|c| c == '-');
            if !fits {
                return false;
            }
            run.clear();
        } else if matches!(c, '.' | '_' | '-') {
            run.push(c);
        } else {
            return false;
        }
    }
    true
}

fn is_tag(tag: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|b| word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    algorithm.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && algorithm
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'_' | b'-'))
        && hex.len() >= 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_read_in_full() {
        for (image, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.28", "docker.io/library/nginx:1.28"),
            ("team/app:v1", "docker.io/team/app:v1"),
            ("localhost/app", "localhost/app:latest"),
            ("reg.example.com:5000/a/b_c:1-2", "reg.example.com:5000/a/b_c:1-2"),
            ("docker.io/nginx", "docker.io/library/nginx:latest"),
            ("[fe80::1]:5000/app:1", "[fe80::1]:5000/app:1"),
        ] {
            assert_eq!(parse(image).as_deref(), Ok(full), "{image}");
        }
        assert_eq!(repository("reg:5000/app:1"), "reg:5000/app");
        assert_eq!(repository("reg:5000/app"), "reg:5000/app");
    }

    #[test]
    fn bad_references_are_explained_as_a_kubelet_does() {
        for (image, why) in [
            ("nginx:1.28:latest", "invalid reference format"),
            ("nginx:", "invalid reference format"),
            ("", "invalid reference format"),
            ("a//b", "invalid reference format"),
            ("nginx:%tag", "invalid reference format"),
            ("ng inx", "invalid reference format"),
            ("-nginx", "invalid reference format"),
            ("nginx@sha256:12", "invalid reference format"),
            (
                "Nginx",
                "invalid reference format: repository name (library/Nginx) must be lowercase",
            ),
        ] {
            assert_eq!(
                parse(image),
                Err(format!("couldn't parse image name {image:?}: {why}")),
                "{image}"
            );
        }
    }
}
