//! Acting as somebody else: the `Impersonate-*` headers.
//!
//! Whoever sends them needs the verb `impersonate` on everything named. Headers that are
//! incomplete are an error, never ignored: the request would run with more rights than
//! its sender meant it to have.

use flagship_base::machinery::path::ObjectPath;
use flagship_base::machinery::status::ApiError;
use http::{HeaderMap, HeaderName};

use super::{RequestAttributes, User, group};

const PREFIX: &str = "impersonate-";
const EXTRA: &str = "impersonate-extra-";

/// The user a request is to be run as. `check` says whether the sender may do each part.
pub fn impersonate(
    sender: User,
    headers: &HeaderMap,
    check: impl Fn(&User, &RequestAttributes) -> Result<(), ApiError>,
) -> Result<User, ApiError> {
    if !headers.keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(sender);
    }
    let values = |name: &str| -> Result<Vec<&str>, ApiError> {
        let texts = headers.get_all(name).iter().map(|value| value.to_str());
        texts.collect::<Result<_, _>>().map_err(|_| bad(&format!("{name} is not text")))
    };
    let name = match values("impersonate-user")?.as_slice() {
        [name] if !name.is_empty() => *name,
        [] | [_] => {
            return Err(bad("requested impersonation without impersonating a user"));
        }
        _ => return Err(bad("Impersonate-User stands more than once")),
    };
    check(&sender, &asks(user_place(name)))?;
    let mut groups = values("impersonate-group")?;
    for group in &groups {
        check(&sender, &asks(place("", "groups", group)))?;
    }
    let mut user = User::default();
    if let Some(uid) = values("impersonate-uid")?.first() {
        check(&sender, &asks(place("authentication.k8s.io", "uids", uid)))?;
        user.uid = (*uid).into();
    }
    for key in headers.keys().map(HeaderName::as_str) {
        let Some(extra) = key.strip_prefix(EXTRA) else { continue };
        let extra = flagship_base::machinery::query::decode(extra)
            .ok_or_else(|| bad(&format!("{key} cannot be decoded")))?;
        let mut at = place("authentication.k8s.io", "userextras", "");
        at.subresource = Some(extra.clone());
        for value in values(key)? {
            at.name = Some(value.to_owned());
            check(&sender, &asks(at.clone()))?;
            user.extra.entry(extra.clone()).or_default().push(value.to_owned());
        }
    }
    // A service account is in the groups of its kind unless others were named.
    let account = service_account(name);
    let implied;
    if let Some((namespace, _)) = account.filter(|_| groups.is_empty()) {
        implied = format!("system:serviceaccounts:{namespace}");
        groups = vec!["system:serviceaccounts", &implied];
    }
    let known =
        if name == super::name::ANONYMOUS { group::UNAUTHENTICATED } else { group::AUTHENTICATED };
    if !groups.contains(&known) {
        groups.push(known);
    }
    user.name = name.into();
    user.groups = groups.into_iter().map(Into::into).collect();
    Ok(user)
}

fn bad(says: &str) -> ApiError {
    ApiError::bad_request(says)
}

fn asks(at: ObjectPath) -> RequestAttributes {
    RequestAttributes::Resource { verb: "impersonate".to_owned(), at }
}

fn place(group: &str, resource: &str, name: &str) -> ObjectPath {
    ObjectPath {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        name: Some(name.to_owned()),
        ..ObjectPath::default()
    }
}

fn user_place(name: &str) -> ObjectPath {
    match service_account(name) {
        Some((namespace, account)) => {
            let namespace = Some(namespace.to_owned());
            ObjectPath { namespace, ..place("", "serviceaccounts", account) }
        }
        None => place("", "users", name),
    }
}

/// Namespace and name of `system:serviceaccount:<namespace>:<name>`.
fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("system:serviceaccount:")?.split_once(':')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Authorizer, Decision, Rbac};

    fn run(sender: User, headers: &[(&str, &str)]) -> Result<User, (u16, String)> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let check = |user: &User, ask: &RequestAttributes| match Rbac.authorize(user, ask, None) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(why) => Err(ask.forbidden(user, &why)),
        };
        impersonate(sender, &map, check).map_err(|e| (e.code, e.message))
    }

    fn admin() -> User {
        User::authenticated("admin", [group::MASTERS])
    }

    #[test]
    fn a_master_becomes_whom_it_names_and_loses_its_own_groups() {
        let headers = [
            ("Impersonate-User", "bob"),
            ("Impersonate-Group", "devs"),
            ("Impersonate-Extra-scopes%2fx", "view"),
        ];
        let bob = run(admin(), &headers).unwrap();
        assert_eq!(&*bob.name, "bob");
        assert!(bob.is_in("devs") && bob.is_in(group::AUTHENTICATED) && !bob.is_in(group::MASTERS));
        assert_eq!(bob.extra["scopes/x"], ["view"]);
        let account = run(admin(), &[("Impersonate-User", "system:serviceaccount:a:b")]).unwrap();
        assert!(account.is_in("system:serviceaccounts:a"));
        let nobody = run(admin(), &[("Impersonate-User", "system:anonymous")]).unwrap();
        assert!(!nobody.is_in(group::AUTHENTICATED));
    }

    #[test]
    fn others_may_not() {
        let eve = || User::authenticated("eve", []);
        let (code, says) = run(eve(), &[("Impersonate-User", "admin")]).unwrap_err();
        assert_eq!(code, 403);
        assert_eq!(
            says,
            r#"users "admin" is forbidden: User "eve" cannot impersonate resource "users" in API group "" at the cluster scope"#
        );
        assert_eq!(run(admin(), &[("Impersonate-Group", "g")]).unwrap_err().0, 400);
        assert_eq!(run(admin(), &[("Impersonate-Odd", "g")]).unwrap_err().0, 400);
        assert_eq!(run(eve(), &[]).unwrap(), eve());
    }
}
