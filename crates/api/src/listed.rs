//! Constants that know their own list.
//!
//! Keys and reasons are API: a golden test prints all of them, and a list kept
//! by hand would sooner or later miss one.

/// Declares `pub const` strings and `ALL`, which holds every one of them.
macro_rules! listed {
    ($( $(#[$doc:meta])* $name:ident = $value:expr; )*) => {
        $( $(#[$doc])* pub const $name: &str = $value; )*

        /// Every constant of this module with its name, in the order written here.
        pub const ALL: &[(&str, &str)] = &[$( (stringify!($name), $name) ),*];
    };
}

pub(crate) use listed;

/// A list as text for a golden test: one `NAME value` line each.
#[cfg(test)]
pub(crate) fn table(all: &[(&str, &str)]) -> String {
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let rows = all.iter().map(|(name, value)| format!("{name:width$} {value}\n"));
    rows.collect()
}
