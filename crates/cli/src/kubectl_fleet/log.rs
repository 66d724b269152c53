//! Lines with the time in front, as Go's log package writes them. In UTC: a fleet spans
//! time zones, and its clusters all log so.

use std::io::Write;

use flagship_runtime::env::Env;

/// Where the commands say what they do.
pub struct Log<'a> {
    out: &'a mut (dyn Write + Send),
    env: Env,
}

impl<'a> Log<'a> {
    /// A log that takes its times from there.
    pub fn new(out: &'a mut (dyn Write + Send), env: &Env) -> Self {
        Self { out, env: env.clone() }
    }

    /// Says one thing.
    pub fn say(&mut self, text: impl AsRef<str>) {
        let time = self.env.now().strftime("%Y/%m/%d %H:%M:%S");
        // Nobody is left to be told if this fails; the work goes on.
        drop(writeln!(self.out, "{time} {}", text.as_ref()));
    }

    /// Says it as it is, without the time.
    pub fn print(&mut self, text: impl AsRef<str>) {
        drop(writeln!(self.out, "{}", text.as_ref()));
    }
}
