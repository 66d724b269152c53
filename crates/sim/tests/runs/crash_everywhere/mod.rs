//! S10 on the real hub: whichever of its writes a hub dies after, a new one with nothing in
//! mind ends where one ends that never dies.
//!
//! Each story is told once in peace to count the writes, then once for each of them: the
//! server commits it, the answer never comes, the hub is dropped at that point and another
//! is started. `deaths` does that, `stories` are the stories. The same stories on the bare
//! rules, with races, are beside the rules.

mod deaths;
mod stories;
