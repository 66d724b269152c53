//! Waiting for agents; what they wait for, `flagship_explain::joining` says.

use std::io::Write;
use std::time::Duration;

use anyhow::bail;

/// How often is looked.
const AGAIN: Duration = Duration::from_secs(1);

/// Looks until nothing is missing any more; every new thing that is missing is told once. If time
/// runs out, the last thing is the error.
pub async fn wait(
    what: &str,
    timeout: Duration,
    out: &mut dyn Write,
    mut missing: impl AsyncFnMut() -> anyhow::Result<Option<String>>,
) -> anyhow::Result<()> {
    let mut last = String::new();
    let looking = async {
        while let Some(now) = missing().await? {
            if now != last {
                writeln!(out, "{what}: {now}")?;
                out.flush()?;
                last = now;
            }
            tokio::time::sleep(AGAIN).await;
        }
        anyhow::Ok(())
    };
    let ended = tokio::time::timeout(timeout, looking).await;
    match ended {
        Ok(ended) => ended,
        Err(_) => bail!("{what} is not done after {}: {last}", told(timeout)),
    }
}

fn told(span: Duration) -> String {
    match span.as_secs() {
        whole if whole >= 60 && whole % 60 == 0 => format!("{} min", whole / 60),
        whole => format!("{whole} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_tells_every_change_once_and_ends_in_the_last() {
        let mut out = Vec::new();
        let mut looks = ["a", "a", "b", "b"].into_iter();
        wait("x", Duration::from_secs(60), &mut out, async || Ok(looks.next().map(str::to_owned)))
            .await
            .unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "x: a\nx: b\n");
        let never = async || Ok(Some("no pod".to_owned()));
        let refusal = wait("x", Duration::from_secs(60), &mut Vec::new(), never).await.unwrap_err();
        assert_eq!(refusal.to_string(), "x is not done after 1 min: no pod");
    }
}
