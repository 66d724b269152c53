//! The console in a real Chromium, by clicks and keys, against `flagship up`.
//!
//! Told with `FLAGSHIP_BROWSER=1`. Without Chromium, chromedriver or kubectl a story says so and is skipped; `scripts/chromium`
//! installs the first two. `FLAGSHIP_PICTURES=1` draws the pictures under `docs/pictures`
//! again. axe-core is used where `npm install --prefix target/axe axe-core` has put it.

#![allow(clippy::unwrap_used)] // a story that cannot be told has failed

mod driver;
mod fleet;
mod many;
mod policies;
mod stories;
mod strangers;
mod team;
