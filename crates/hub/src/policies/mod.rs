//! The admission policy manager: brings the API server's own policies to what a hub wants,
//! before its controllers start. What they say is `flagship_rules::admission::policies`.

mod shell;

pub use flagship_rules::admission::policies::Config;
pub use shell::{install, put};
